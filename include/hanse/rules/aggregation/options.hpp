// Choices of the aggregators.
#pragma once

#include <array>

namespace hanse {

// Share of a client: by its training samples, the same for all, or by samples up to a number.
enum class ClientWeights { kSamples, kUniform, kCapped };
constexpr auto choices_of(ClientWeights) { return std::array{"samples", "uniform", "capped"}; }

// How the draw's weights enter: `unbiased` multiplies q_i w_i; `normalized` divides that by its sum
// over the participants, so that the coefficients sum to 1 (algorithms of FedAvg's family).
enum class Estimator { kNormalized, kUnbiased, kArrival };
constexpr auto choices_of(Estimator) { return std::array{"normalized", "unbiased", "arrival"}; }

// AAggFF's cumulative distribution functions (aaggff.hpp).
enum class Cdf { kNormal, kWeibull, kFrechet, kExponential, kLogistic, kGumbel };
constexpr auto choices_of(Cdf) {
  return std::array{"normal", "weibull", "frechet", "exponential", "logistic", "gumbel"};
}

// Do clients that took part not long ago count with their last updates (multi_objective.hpp)?
enum class AbsentClients { kNone, kWindow };
constexpr auto choices_of(AbsentClients) { return std::array{"none", "window"}; }

// What a round does that has fewer participants than a robust rule needs.
enum class Shortfall { kError, kSkip };
constexpr auto choices_of(Shortfall) { return std::array{"error", "skip"}; }

}  // namespace hanse
