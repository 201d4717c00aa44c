#include "round_pairs.hpp"

#include <algorithm>

#include <Eigen/Core>

#include "hanse/rules/aggregation/quasi_newton.hpp"

namespace hanse {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Eigen::Index;

RoundPairs::RoundPairs(int64_t n_params, int64_t most, bool in_factors)
    : n_params_(static_cast<std::size_t>(n_params)),
      in_factors_(in_factors),
      pairs_(static_cast<std::size_t>(most)) {
  if (in_factors) return;
  rows_.resize(2 * pairs_.size() * whole_lines(n_params_));
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    pairs_[i].step = GradientRecord(row(i, 0));
    pairs_[i].change = GradientRecord(row(i, 1));
  }
}

std::span<float> RoundPairs::row(std::size_t pair, std::size_t part) {
  return std::span(rows_).subspan((2 * pair + part) * whole_lines(n_params_), n_params_);
}

FreshPair RoundPairs::begin(float factor) {
  Pair& pair = pairs_[count_++];
  pair.factor = factor;
  pair.gradient = nullptr;
  return {.step = &pair.step, .change = &pair.change};
}

FreshPair RoundPairs::begin_with_row() {
  const FreshPair pair = begin(1);
  if (in_factors_) {
    rows_.resize(n_params_);
    *pair.step = GradientRecord(std::span(rows_));
  }
  return pair;
}

void RoundPairs::end(const GradientRecord& gradient) { end_first_open(pairs_, &gradient); }

std::optional<double> RoundPairs::rate(const GradientRecord& gradient) {
  const std::span<const Pair> pairs = std::span(pairs_).first(count_);
  count_ = 0;
  // Every gradient once: where a step ends, the next one goes along it.
  std::vector<const GradientRecord*> all = {&gradient};
  const auto place = [&](const GradientRecord* record) {
    const auto found = std::find(all.begin(), all.end(), record);
    const Index at = found - all.begin();
    if (found == all.end()) all.push_back(record);
    return at;
  };
  // Of s_1, y_1, ..., g: what each is made of.
  const auto n = static_cast<Index>(pairs.size());
  Matrix terms = Matrix::Zero(2 * n + 1, 3 * n + 1);
  for (Index i = 0; i < n; ++i) {
    const Pair& pair = pairs[static_cast<std::size_t>(i)];
    terms(2 * i, place(&pair.step)) = pair.factor;
    terms(2 * i + 1, place(pair.gradient)) = 1;
    terms(2 * i + 1, place(&pair.change)) = -1;
  }
  terms(2 * n, 0) = 1;
  const auto size = static_cast<Index>(all.size());
  Matrix gram(size, size);
  GradientRecord::gram(all, {gram.data(), all.size() * all.size()});
  const Matrix products = terms.leftCols(size) * gram * terms.leftCols(size).transpose();

  std::vector<Index> used;
  for (Index s = 0; s < 2 * n; s += 2) {
    if (!has_curvature(products(s, s), products(s, s + 1), products(s + 1, s + 1))) continue;
    used.insert(used.end(), {s, s + 1});
  }
  if (used.empty()) return std::nullopt;
  used.push_back(2 * n);
  const Matrix chosen = products(used, used);
  return lbfgs_rate({chosen.data(), used.size() * used.size()},
                    static_cast<int64_t>(used.size() / 2));
}

}  // namespace hanse
