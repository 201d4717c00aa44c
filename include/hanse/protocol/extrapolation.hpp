// FedExP (Jhunjhunwala et al. 2023): a longer step of the server where clients' updates differ.
#pragma once

#include <memory>

#include "hanse/protocol/round_part.hpp"

namespace hanse {

// The factor of the server's step along the mean update D = sum_i c_i D_i (FedExP, eq. 7, there
// with c_i = 1/M):
//   max(1, sum_i c_i |D_i|^2 / (2 (|D|^2 + epsilon)))
// `squares` is the sum in the numerator, `mean` is |D|^2. 1 where all updates are zeros.
double extrapolation(double squares, double mean, double epsilon);

// Multiplies each round's mean update by that factor; of a model's buffers only the mean. Tells it
// as `extrapolation` in rounds.csv. `n_trainable`: the values that count in norms. An object a
// rank. REQUIRES: coefficients before the training, whose sum is the server's update. Cost on rank
// 0: two passes over the update, which the server then has to have whole before it steps.
std::unique_ptr<RoundPart> make_extrapolation(int64_t n_trainable, double epsilon);

}  // namespace hanse
