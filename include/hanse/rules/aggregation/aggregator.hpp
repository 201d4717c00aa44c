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
  bool losses = false;  // F_i at the received model, on the client's training samples
};

// Statistics of a round's participants; arrays are per participant, in the draw's order.
struct RoundReport {
  int64_t round = 0;                     // from 1
  std::span<const int64_t> clients;      // ids
  std::span<const double> lambda;        // n_i / sum over the federation of n_j
  std::span<const double> draw_weights;  // w_i of Draw
  std::span<const double> losses;        // F_i; empty unless asked for
};

// theta <- theta + step * sum_i coefficients[i] (theta_i - theta), before the server optimizer.
struct Mix {
  std::vector<double> coefficients;
  double step = 1;
};

class Aggregator {
 public:
  virtual ~Aggregator() = default;

  virtual AggregatorNeeds needs() const { return {}; }
  virtual Mix mix(const RoundReport& report) = 0;

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
