// How updates of older models count.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/rules/clock/options.hpp"

namespace hanse {

// (B1), tau >= 0 versions between the model that a client received and the one it changes:
//   constant 1; poly (1 + tau)^-a; hinge 1 up to b, then 1/(a (tau - b) + 1); threshold 1 up to b,
//   then a. s(0) = 1 exactly. hinge and poly: Xie et al. 2019.
double staleness_weight(const AsyncOptions& options, int64_t tau);
std::vector<double> staleness_weights(const AsyncOptions& options, std::span<const int64_t> tau);

// (B2), Nguyen et al. 2022: what the members of a buffer count whose rule gives them m_i: s_i m_i,
// or with BufferNorm::kWeights s_i m_i sum |m| / sum |s m|, which is s_i m_i / sum s m where the
// rule has normalized them. All 0 where that is all that is left of them.
std::vector<double> buffer_coefficients(const AsyncOptions& options, std::span<const double> m,
                                        std::span<const int64_t> tau);

// (B3), Xie et al. 2019: alpha s(tau).
inline double mixing_rate(const AsyncOptions& options, int64_t tau) {
  return options.mixing * staleness_weight(options, tau);
}

}  // namespace hanse
