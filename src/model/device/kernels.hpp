// Where the functions of work.hpp run.
#pragma once

#include <cstdint>

#include <ATen/ATen.h>

#include "device/work.hpp"

namespace hanse {

// Starts `n` items (blocks of a BlockWork) on the current stream of this thread's GPU, behind what
// was begun there before; does not wait. Throws Error when the GPU refuses, NotCompiled in a build
// without CUDA.
void run_on_gpu(const Work& work, int64_t n);

// Runs `n` items, or blocks, on `device`, where the memory of `work` lies.
template <class One>
void run(const One& work, int64_t n, const at::Device& device) {
  if (!device.is_cpu()) return run_on_gpu(work, n);
  if constexpr (BlockWork<One>) {
    run_blocks(work, n);
  } else {
    for (int64_t item = 0; item < n; ++item) work(item);
  }
}

}  // namespace hanse
