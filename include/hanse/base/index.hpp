// Counts are int64_t everywhere; the standard library's containers want std::size_t.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hanse {

// REQUIRES: i >= 0.
constexpr std::size_t to_index(int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace hanse
