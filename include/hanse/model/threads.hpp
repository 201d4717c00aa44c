// Threads and kernels of the numeric libraries behind the models. Both are part of what must agree
// for two runs to have the same bits.
#pragma once

#include <cstdint>
#include <string>

namespace hanse {

// Throws InvalidArgument unless this process has room for so many threads and what OpenBLAS keeps
// for each: without it OpenBLAS asks again for ever.
void require_model_threads(int64_t threads);

// Threads that one operation of the calling thread may use, in LibTorch, oneDNN and OpenBLAS. To be
// called before the first model is built. Throws InvalidArgument when threads < 1.
// Also makes the C library keep freed blocks of up to 32 MiB (512 MiB in all): activations of this
// size are freed and allocated in every step, and fetching them from the system anew costs a
// convolutional network a fifth of its time. The first call also multiplies two matrices (2 ms),
// so that OpenBLAS has written memory behind that of later products.
void set_model_threads(int64_t threads);

// The kernels that this process uses, of the libraries that are loaded: "openblas SkylakeX", behind
// torch_library() "openblas SkylakeX, torch AVX512". Only processes with the same text compute the
// same bits.
std::string kernel_family();

}  // namespace hanse
