#include "hanse/model/mixing.hpp"

#include <vector>

#include "kernels/layer_kernels.hpp"

namespace hanse {

void mix_rows(std::span<const double> weights, std::span<const float> rows, int64_t n,
              std::span<float> out) {
  const std::vector<float> shares(weights.begin(), weights.end());
  const int64_t width = std::ssize(rows) / n;
  multiply(std::ssize(weights) / n, width, n, 1.0f, {shares.data(), n}, {rows.data(), width}, 0.0f,
           out.data(), width);
}

}  // namespace hanse
