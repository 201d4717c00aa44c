// Threads and kernels of the numeric libraries behind the models. Both must agree for two runs to
// have the same bits.
#pragma once

#include <cstdint>
#include <string>

namespace hanse {

struct ModelOptions;

// Throws InvalidArgument unless this process has room for so many threads and the memory that
// OpenBLAS keeps for each; without room OpenBLAS asks again for ever.
void require_model_threads(int64_t threads);

// Sets the threads that one operation of the calling thread may use, in LibTorch, oneDNN and
// OpenBLAS. Call it before the first model is built. Throws InvalidArgument when threads < 1. It
// also calls keep_freed_memory(true). The first call multiplies two matrices (2 ms), so that
// OpenBLAS has written the memory of later products.
void set_model_threads(int64_t threads);

// Makes the C library keep freed blocks of up to 32 MiB (512 MiB in all): activations of this size
// are freed and allocated in every step, and fetching them from the system anew costs a
// convolutional network a fifth of its time. Or makes it return those of 1 MiB and more, as while
// data are read: of a million clients 50 bytes each would stay behind.
void keep_freed_memory(bool keep);

// Throws InvalidArgument unless HANSE_KERNELS, where it is set, names a family of kernels that this
// processor runs.
void check_kernels();

// The kernels of the libraries that this process has loaded: "openblas SkylakeX", behind
// torch_library() "openblas SkylakeX, torch AVX512". Only processes with the same text compute the
// same bits.
std::string kernel_family();

// What makes a model's products in another precision than float32: on CPUs the kernels "AMX",
// "AVX-512 BF16", "AVX-512", "AVX2" or "plain", whose bits are the same, on a GPU "tensor cores, by
// cuBLAS and cuDNN". On CPUs graphs have "LibTorch in float32, of rounded factors". In float32 "".
std::string product_kernels(const ModelOptions& options, bool on_gpu);

// A line on that for the user, and on its speed or its bits; in float32 "".
std::string products_text(const ModelOptions& options, bool on_gpu);

}  // namespace hanse
