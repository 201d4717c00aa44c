#include "curvature.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "hanse/base/products.hpp"
#include "hanse/rules/aggregation/quasi_newton.hpp"

namespace hanse {

namespace {

constexpr int64_t kHeader = 2;
constexpr int64_t kBlock = 4096;  // values of which a pair is made and measured while in the cache

// Of [2m, 2m] doubles.
int64_t product_floats(int64_t most) { return 2 * 4 * most * most; }

}  // namespace

int64_t CurvaturePairs::width(int64_t n_params, int64_t most) {
  return kHeader + product_floats(most) + 2 * (most + 1) * n_params;
}

CurvaturePairs::CurvaturePairs(std::span<float> state, int64_t n_params, int64_t most)
    : n_params_(n_params),
      most_(most),
      header_(state.data()),
      products_(header_ + kHeader),
      pairs_(products_ + product_floats(most)),
      count_(static_cast<int64_t>(header_[0])),
      next_(static_cast<int64_t>(header_[1])),
      measured_(count_) {}

void CurvaturePairs::take(std::span<const float> gradient) {
  std::array<double, 4> found{};  // s.s, nothing, s.y, y.y
  for (int64_t begin = 0; begin < n_params_; begin += kBlock) {
    const int64_t length = std::min(kBlock, n_params_ - begin);
    const float* s = step().data() + begin;
    float* y = change().data() + begin;
    const float* end = gradient.data() + begin;
    for (int64_t i = 0; i < length; ++i) y[i] = end[i] - y[i];
    add_inner_products(std::array<const float*, 2>{s, y}, 0, length, found);
  }
  if (!has_curvature(found[0], found[2], found[3])) return;
  count_ = std::min(count_ + 1, most_);
  fresh_ = std::min(fresh_ + 1, most_);
  next_ = (next_ + 1) % slots();
  header_[0] = static_cast<float>(count_);
  header_[1] = static_cast<float>(next_);
}

// What is known already of the Gram matrix [size, size] that rate() makes: the pairs of the last
// rate that are still there.
std::size_t CurvaturePairs::recall(std::span<double> gram, std::size_t size) const {
  const auto known = static_cast<std::size_t>(2 * (count_ - fresh_));
  const std::size_t dropped = static_cast<std::size_t>(2 * measured_) - known;
  const auto stride = static_cast<std::size_t>(2 * most_);
  for (std::size_t i = 0; i < known; ++i) {
    const float* from = products_ + 2 * ((i + dropped) * stride + dropped);
    std::memcpy(&gram[i * size], from, known * sizeof(double));
  }
  return known;
}

void CurvaturePairs::remember(std::span<const double> gram, std::size_t size) {
  const auto stride = static_cast<std::size_t>(2 * most_);
  for (std::size_t i = 0; i + 1 < size; ++i) {
    std::memcpy(products_ + 2 * i * stride, &gram[i * size], (size - 1) * sizeof(double));
  }
  measured_ = count_;
  fresh_ = 0;
}

double CurvaturePairs::rate(std::span<const float> gradient) {
  std::vector<const float*> rows;
  for (int64_t age = count_; age > 0; --age) {
    const int64_t slot = (next_ - age + slots()) % slots();
    rows.push_back(row(slot, 0).data());
    rows.push_back(row(slot, 1).data());
  }
  rows.push_back(gradient.data());
  std::vector<double> gram(rows.size() * rows.size());
  const std::size_t known = recall(gram, rows.size());
  add_inner_products(rows, known, n_params_, gram);
  mirror(gram, rows.size());
  remember(gram, rows.size());
  return lbfgs_rate(gram, count_);
}

}  // namespace hanse
