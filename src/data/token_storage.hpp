// How tokens are stored: in as few bytes as their vocabulary needs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hanse/data/dataset.hpp"

namespace hanse {

inline Storage token_storage(int64_t vocabulary) {
  if (vocabulary <= 1 << 8) return Storage::kToken;
  return vocabulary <= 1 << 16 ? Storage::kToken16 : Storage::kFloat;
}

// Calls write(first value) on tokens stored so.
template <class Write>
void write_tokens(Storage storage, std::byte* place, Write write) {
  switch (storage) {
    case Storage::kToken: return write(reinterpret_cast<uint8_t*>(place));
    case Storage::kToken16: return write(reinterpret_cast<uint16_t*>(place));
    default: return write(reinterpret_cast<float*>(place));
  }
}

}  // namespace hanse
