// Mixtures of parameter rows.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace hanse {

// out [m, P] <- weights [m, n] rows [n, P], in float32: one product, so that the bits of a row
// depend on (m, n, P) and its place alone. REQUIRES: n >= 1, weights.size() a multiple of n,
// out.size() = m P; `out` and `rows` do not overlap. Cost: 2 m n P flops.
void mix_rows(std::span<const double> weights, std::span<const float> rows, int64_t n,
              std::span<float> out);

// Computes such a product: mix_rows(), or a device.
using RowMixer = std::function<void(std::span<const double> weights, std::span<const float> rows,
                                    int64_t n, std::span<float> out)>;

}  // namespace hanse
