// What clients that send directions do in a round, wherever their gradients are made: one after the
// other on the host, or side by side (both in quasi_newton.cpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "curvature_pairs.hpp"
#include "hanse/client/local_update.hpp"
#include "hanse/data/federation.hpp"

namespace hanse {

// The blocks of a client's state, rows without what fills their last line.
struct QuasiNewtonMemory {
  float* known;               // 1 once the others hold something; null: nothing is kept
  std::span<float> model;     // [P] of the last participation
  std::span<float> gradient;  // [P] there, with full batches
  std::span<float> pairs;     // KeptPairs
};

class QuasiNewtonRule {
 public:
  QuasiNewtonRule(const ClientOptions& options, const Federation& federation, int64_t n_params);

  const std::vector<StateBlock>& state() const { return state_; }
  QuasiNewtonMemory memory_of(std::span<float> state) const;
  KeptPairs kept_pairs(const QuasiNewtonMemory& memory) const;

  // A client's steps in a round; m, 0: no pairs; the most pairs that a client makes in a round.
  int64_t steps(int64_t client) const;
  int64_t most() const { return most_; }
  int64_t fresh() const { return std::min(longest_, most_); }
  // Does a pair end with the gradient of this step, from 1? Pairs that later ones of the round
  // would push out are not made.
  bool makes_pair(int64_t step, int64_t steps) const {
    return step <= steps && step > steps - most_;
  }
  // Does one end with the first step's? It begins at the model of the last participation.
  bool pairs_arrival(const QuasiNewtonMemory& memory, int64_t steps) const {
    return makes_pair(1, steps) && memory.known != nullptr && *memory.known != 0;
  }
  // `step`: [P] from the last participation's model to the received `row`, which is remembered;
  // empty: only that.
  static void arrive(QuasiNewtonMemory& memory, std::span<const float> row, std::span<float> step);

  bool sends_last() const { return sent_ == SentGradient::kLast; }
  // What each gradient counts in the sum that is sent.
  float share(double lr, int64_t steps) const;

  // The outcome's rate: l-bfgs's of the pairs or, where there are none, that of a gradient step
  // along what is sent, of that square norm; or a power of the loss.
  bool rate_is_of_loss() const { return options_.rate == LoweringRate::kLoss; }
  double loss_rate(double loss) const;
  double gain(std::optional<double> by_pairs, double lr, double square, double loss) const;
  // gain() of what is sent; takes its square norm, a pass, only where there are no pairs.
  double rate_of(const GradientRecord& sent, std::optional<double> by_pairs, double lr,
                 double loss) const;

  bool full_batches() const { return work_.batch == 0; }
  // Some client makes fewer than m pairs in a round and needs older ones. Where nobody does, pairs
  // of earlier rounds would count only in the place of those without curvature, and would cost
  // each client a memory of 2 m rows: they go.
  bool keeps_pairs() const { return fewest_ < most_; }

 private:
  // Old pairs, and those that a round makes.
  int64_t slots() const { return most_ + fresh(); }

  LocalWork work_;
  LoweringOptions options_;
  const Federation& federation_;
  int64_t n_params_;
  int64_t fewest_, longest_;  // steps that a client takes in a round
  SentGradient sent_;         // not kAuto
  int64_t most_;
  std::vector<StateBlock> state_;
};

}  // namespace hanse
