// TorchScript files for the tests.
#pragma once

#include <string>

namespace hanse {

// Writes `name`.pt to a folder of the process, which goes with it, and returns its path:
//   linear      z = x W^T + b; classes 3, samples of any shape with 144 values
//   batch-norm  batch norm of 4 values, which counts its batches, and a dense layer; classes 3
//   dropout     layer norm of 4 values, dropout, a dense layer; classes 3
//   frozen      linear of 4 values, its weight frozen; classes 3
//   tied        two layers of one 3x3 weight; classes 3, samples {3}
//   centred     linear of 4 values, of which the batch's mean is taken off; classes 3
//   cumulative  as batch-norm, but the running mean is that of all batches counted
//   counted     linear of 4 values times the number of batches, which starts at 5
//   bytes       linear of 4 values, of which [1, 3) become uint8 before and the last int64
//   attention, attention-by-hand
//               causal scaled_dot_product_attention of two heads, and its formula; classes 3,
//               samples {4}. The first needs read_script() once before
//   positions, positions-first
//               a dense layer at each position, [rows, positions, 3] or [rows, 3, positions]
//   convolution a 2x2 convolution of 4 values, ReLU, a dense layer; classes 3
//   dense-norm  a dense layer of 4 values, and layer norm behind it; classes 3
//   softmax     linear with a softmax behind it
//   softmax-turned
//               likewise of 4 values, with changes of the shape behind that
//   both-modes  dropout with a constant flag in each branch of self.training; samples of 4 values
//   frozen-dropout, late-dropout, frozen-norm
//               dropout that always trains, by one operator or one in each branch of
//               self.training, batch norm that never does; samples of 4 values
//   double, half        linear with parameters of that type
//   no-parameters, detached, integers, two-outputs, one-batch, dictionary, two-inputs, tokens
//                       what cannot be trained; samples of 4 values
//   signals     a one-dimensional convolution; samples {1, length}
std::string script_file(const std::string& name);

}  // namespace hanse
