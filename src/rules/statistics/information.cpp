#include "information.hpp"

#include <cmath>

#include "hanse/rules/statistics/tally.hpp"

namespace hanse {

Information::Information(std::span<const double> packed, std::size_t q)
    : q_(q), scale_(q), lower_(packed.begin(), packed.end()) {
  for (std::size_t j = 0; j < q_; ++j) {
    const double diagonal = packed[packed_place(j, j)];
    scale_[j] = diagonal > 0 ? 1 / std::sqrt(diagonal) : 0;
  }
  for (std::size_t j = 0; j < q_; ++j) {
    for (std::size_t k = 0; k <= j; ++k) {
      double sum = packed[packed_place(j, k)] * scale_[j] * scale_[k];
      for (std::size_t i = 0; i < k; ++i) {
        sum -= lower_[packed_place(j, i)] * lower_[packed_place(k, i)];
      }
      if (j == k && !(sum > kLeastPivot)) {
        dependent_ = static_cast<int64_t>(j);
        return;
      }
      lower_[packed_place(j, k)] = j == k ? std::sqrt(sum) : sum / lower_[packed_place(k, k)];
    }
  }
}

std::vector<double> Information::solve(std::span<const double> b) const {
  std::vector<double> x(b.begin(), b.end());
  for (std::size_t j = 0; j < q_; ++j) {
    x[j] *= scale_[j];
    for (std::size_t i = 0; i < j; ++i) x[j] -= lower_[packed_place(j, i)] * x[i];
    x[j] /= lower_[packed_place(j, j)];
  }
  for (std::size_t j = q_; j-- > 0;) {
    for (std::size_t i = j + 1; i < q_; ++i) x[j] -= lower_[packed_place(i, j)] * x[i];
    x[j] /= lower_[packed_place(j, j)];
  }
  for (std::size_t j = 0; j < q_; ++j) x[j] *= scale_[j];
  return x;
}

std::vector<double> Information::inverse() const {
  std::vector<double> inverse(packed_size(q_));
  for (std::size_t j = 0; j < q_; ++j) {
    std::vector<double> unit(q_, 0.0);
    unit[j] = 1;
    const std::vector<double> column = solve(unit);
    for (std::size_t i = j; i < q_; ++i) inverse[packed_place(i, j)] = column[i];
  }
  return inverse;
}

std::vector<double> transformed(std::span<const double> packed, std::span<const double> by,
                                std::size_t q) {
  std::vector<double> half(q * q, 0.0), result(packed_size(q), 0.0);  // half = by x matrix
  for (std::size_t i = 0; i < q; ++i) {
    for (std::size_t k = 0; k < q; ++k) {
      for (std::size_t j = 0; j < q; ++j)
        half[i * q + k] += by[i * q + j] * packed[packed_place(j, k)];
    }
  }
  for (std::size_t i = 0; i < q; ++i) {
    for (std::size_t k = 0; k <= i; ++k) {
      for (std::size_t j = 0; j < q; ++j)
        result[packed_place(i, k)] += half[i * q + j] * by[k * q + j];
    }
  }
  return result;
}

}  // namespace hanse
