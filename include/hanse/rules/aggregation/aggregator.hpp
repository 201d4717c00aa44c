// How much each participant's update counts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hanse/base/state.hpp"

namespace hanse {

// What a rule must be told about the participants before it can mix.
struct AggregatorNeeds {
  bool sizes = false;   // lambda of RoundReport; the others may be given any
  bool losses = false;  // F_i at the received model, on the client's training samples
  bool norms = false;   // |theta_i - theta|^2, after training, for scale()
  bool full = false;    // every client in every round
};

// Statistics of a round's participants; arrays are per participant, in the draw's order.
struct RoundReport {
  int64_t round = 0;                     // from 1
  std::span<const int64_t> clients;      // ids
  std::span<const double> lambda;        // n_i / sum over the federation of n_j
  std::span<const double> draw_weights;  // w_i of Draw
  std::span<const double> losses;        // F_i; empty unless asked for
};

// theta <- theta + scale() * sum_i coefficients[i] (theta_i - theta), before the server optimizer.
struct Mix {
  std::vector<double> coefficients;
  std::vector<double> response;  // what the rule made of each loss; empty: nothing
};

class Aggregator {
 public:
  virtual ~Aggregator() = default;

  virtual AggregatorNeeds needs() const { return {}; }
  // Before the participants train. Throws InvalidArgument when it cannot weigh them.
  virtual Mix mix(const RoundReport& report) = 0;
  // After they trained: the factor of the whole step. `squared_norms` is empty unless asked for.
  virtual double scale(std::span<const double> squared_norms);

  // The weights p over all clients after the round, for rules that keep such; else empty. O(K).
  virtual std::vector<double> decision() const;

  virtual void save(State& state) const;
  virtual void load(const State& state);
};

// How the draw's weights enter: `unbiased` multiplies q_i w_i; `normalized` divides that by its sum
// over the participants, so that the coefficients sum to 1 (algorithms of FedAvg's family).
enum class Estimator { kNormalized, kUnbiased };

// "normalized" | "unbiased"; REQUIRES one of them.
Estimator parse_estimator(const std::string& name);

// Coefficients from shares q_i and draw weights w_i. Throws InvalidArgument when the normalized sum
// is not positive.
std::vector<double> estimate(std::span<const double> shares, std::span<const double> draw_weights,
                             Estimator estimator);

}  // namespace hanse
