// Means of chosen rows.
#pragma once

#include "aggregation/places.hpp"
#include "hanse/rules/aggregation/robust_rule.hpp"

namespace hanse::robust {

// Each of `places` gets what fedavg gives each of as many clients, the other of n rows get 0.
inline Coefficients mean_of(const std::vector<std::size_t>& places, std::size_t n) {
  const std::vector<double> shares(places.size(), 1 / static_cast<double>(places.size()));
  const std::vector<double> once(places.size(), 1);
  const std::vector<double> equal = estimate(shares, once, Estimator::kNormalized);
  Coefficients coefficients(n);
  for (const std::size_t place : places) coefficients[place] = equal.front();
  return coefficients;
}

}  // namespace hanse::robust
