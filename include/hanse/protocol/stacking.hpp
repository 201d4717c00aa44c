// Rounds that look at each participant's adapters: what the server merges, and how far the mean of
// the factors is from the mean of their products.
//
// FLoRA (Wang et al. 2024): all participants start a round from fresh A and B = 0, and
//   W_0 <- float32(W_0 + lr s sum_i c_i B_i A_i)                          (H5)
// with the sum in float64, in the order of the draw: the stack [c_1 B_1 | c_2 B_2 ...] [A_1; A_2;
// ...] multiplied out. What else is trained moves as in any round.
#pragma once

#include <memory>

#include "hanse/comm/communicator.hpp"
#include "hanse/model/part_model.hpp"
#include "hanse/protocol/round_part.hpp"
#include "hanse/protocol/server_options.hpp"

namespace hanse {

struct StackingCase {
  Communicator& comm;
  Communicator& host;
  PartModel& model;
  ServerOptions server;  // its rate
  bool merges = false;   // FLoRA
  bool gap = false;      // the column lora_gap
};

// All of the case must outlive it. Cost a round: K rows of the trained part, which go to rank 0, or
// where it merges to all ranks; PartModel::merge() and product_gap(). State: W_0, where it merges.
std::unique_ptr<RoundPart> make_stacking(const StackingCase& of);

}  // namespace hanse
