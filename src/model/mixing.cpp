#include "hanse/model/mixing.hpp"

#include <vector>

#include <cblas.h>

namespace hanse {

void mix_rows(std::span<const double> weights, std::span<const float> rows, int64_t n,
              std::span<float> out) {
  const std::vector<float> shares(weights.begin(), weights.end());
  const auto terms = static_cast<int>(n);
  const auto m = static_cast<int>(static_cast<int64_t>(weights.size()) / n);
  const auto width = static_cast<int>(static_cast<int64_t>(rows.size()) / n);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, width, terms, 1.0f, shares.data(),
              terms, rows.data(), width, 0.0f, out.data(), width);
}

}  // namespace hanse
