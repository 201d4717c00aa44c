// How updates are compressed before they are summed: comm.compress of a job and its parameters.
#pragma once

#include <array>
#include <cstdint>

namespace hanse {

enum class Compress { kNone, kTopK, kRandomK, kSign, kQuantize };
constexpr auto choices_of(Compress) {
  return std::array{"none", "top-k", "random-k", "sign", "quantize"};
}

struct CompressionOptions {
  Compress compress = Compress::kNone;
  double keep = 0.01;          // top-k, random-k: entries, a share below 1 or a number
  int64_t bits = 4;            // quantize: bits of an entry, 2 to 16
  bool error_feedback = true;  // what a client has not sent is part of its next update
};

}  // namespace hanse
