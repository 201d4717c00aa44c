// Learning rates that fall, or grow, in steps.
#pragma once

#include <cmath>
#include <cstdint>

namespace hanse {

// rate * factor^floor((round - 1) / every), rounds from 1. REQUIRES: every >= 1.
inline double stepwise_decay(double rate, double factor, int64_t every, int64_t round) {
  return rate * std::pow(factor, static_cast<double>((round - 1) / every));
}

}  // namespace hanse
