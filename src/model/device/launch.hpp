// What CUDA's compiler makes for the rest of the library.
#pragma once

#include "device/work.hpp"

namespace hanse {

// Starts a thread for each of `n` items, or `n` blocks of a BlockWork, on a stream (cudaStream_t).
// Returns an error or null.
const char* launch(const Work& work, int64_t n, void* stream);

}  // namespace hanse
