// Operators that files of newer torch name and an older LibTorch lacks.
#pragma once

namespace hanse {

// Registers those that LibTorch does not have. Call it before a file is read.
//   aten::scaled_dot_product_attention   (torch 2.0) as PyTorch decomposes it
void add_script_operators();

}  // namespace hanse
