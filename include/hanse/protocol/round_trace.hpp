// What a trace keeps of a round, so that its rules can be replayed.
#pragma once

#include <cstdint>
#include <vector>

#include "hanse/rules/sampling/sampler.hpp"

namespace hanse {

// What the rules were told in a round; rank 0, in the draw's order.
struct RoundTrace {
  bool everyone_there = true;
  std::vector<int64_t> available;  // unless everyone was there
  std::vector<double> foreseen;    // [M] a_m, when the sampler asked for them
  Draw draw;
  std::vector<double> a;              // the sampler's feedback
  std::vector<double> batch_losses;   // mean mini-batch loss, the sampler's too
  std::vector<double> samples;        // of the participants
  std::vector<double> losses;         // F_i, when the aggregator needs them
  std::vector<double> gram;           // [L, K, K], when it needs that
  std::vector<double> rates;          // [K], when it needs those
  std::vector<double> squared_norms;  // |theta_i - theta|^2
};

}  // namespace hanse
