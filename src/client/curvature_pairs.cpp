#include "curvature_pairs.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include <Eigen/Core>

#include "hanse/base/index.hpp"
#include "hanse/base/products.hpp"
#include "hanse/rules/aggregation/quasi_newton.hpp"

namespace hanse {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Eigen::Index;

RoundPairs::RoundPairs(int64_t n_params, int64_t most, bool in_factors)
    : n_params_(to_index(n_params)), in_factors_(in_factors), pairs_(to_index(most)) {
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
  Pair& pair = pairs_[begun_++];
  pair.factor = factor;
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

std::optional<double> RoundPairs::rate(const GradientRecord& gradient) {
  // Every gradient once: where a step ends, the next one goes along it.
  std::vector<const GradientRecord*> all = {&gradient};
  const auto place = [&](const GradientRecord* record) {
    const auto found = std::find(all.begin(), all.end(), record);
    const auto at = static_cast<std::size_t>(found - all.begin());
    if (found == all.end()) all.push_back(record);
    return at;
  };
  std::vector<PairTerms> terms;
  for (const Pair& pair : std::span(pairs_).first(begun_)) {
    const std::size_t step = place(&pair.step), end = place(pair.gradient);
    terms.push_back(
        {.factor = pair.factor, .step = step, .change = place(&pair.change), .end = end});
  }
  begun_ = ended_ = 0;
  std::vector<double> gram(all.size() * all.size());
  GradientRecord::gram(all, gram);
  return rate_of_pairs(terms, gram);
}

std::optional<double> rate_of_pairs(std::span<const PairTerms> pairs,
                                    std::span<const double> gram) {
  // Row by row, how s_1, y_1, ..., g are made of the gradients.
  const auto n = static_cast<Index>(pairs.size());
  const auto size = static_cast<Index>(std::lround(std::sqrt(gram.size())));
  Matrix terms = Matrix::Zero(2 * n + 1, size);
  for (Index i = 0; i < n; ++i) {
    const PairTerms& pair = pairs[to_index(i)];
    terms(2 * i, static_cast<Index>(pair.step)) = pair.factor;
    terms(2 * i + 1, static_cast<Index>(pair.end)) += 1;
    terms(2 * i + 1, static_cast<Index>(pair.change)) += -1;
  }
  terms(2 * n, 0) = 1;
  const Matrix products =
      terms * Eigen::Map<const Matrix>(gram.data(), size, size) * terms.transpose();
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

namespace {

constexpr std::size_t kBlock = 8192;  // values of which products are made while in the cache

// Parts of a slot, and kinds of products: with s_i.y_j, j >= i, and y_i.y_j a rate has all it
// needs.
constexpr std::size_t kStep = 0;
constexpr std::size_t kChange = 1;

// The state: rows [slots, 2, P], each in whole lines; behind them the number of pairs, their slots,
// a scale a slot, and products [2, slots, slots] of float64.
std::size_t scales_at(std::size_t slots) { return 1 + slots; }
std::size_t products_at(std::size_t slots) { return scales_at(slots) + slots; }
std::size_t notes_width(std::size_t slots) { return products_at(slots) + 2 * 2 * slots * slots; }

using Rows = std::vector<const float*>;

Rows from(const Rows& rows, std::size_t begin) {
  Rows moved = rows;
  for (const float*& row : moved) row += begin;
  return moved;
}

}  // namespace

int64_t KeptPairs::width(int64_t n_params, int64_t slots) {
  return 2 * slots * whole_lines(n_params) + static_cast<int64_t>(notes_width(to_index(slots)));
}

KeptPairs::KeptPairs(std::span<float> state, int64_t n_params, int64_t most, int64_t slots)
    : n_params_(to_index(n_params)),
      most_(to_index(most)),
      slots_(to_index(slots)),
      rows_(state),
      notes_(state.subspan(2 * slots_ * whole_lines(n_params_))) {
  const auto count = static_cast<std::size_t>(notes_[0]);
  for (std::size_t i = 0; i < count; ++i) pairs_.push_back(static_cast<std::size_t>(notes_[1 + i]));
  for (std::size_t slot = 0; slot < slots_; ++slot) {
    for (const std::size_t part : {kStep, kChange}) views_.emplace_back(row(slot, part));
  }
}

std::span<float> KeptPairs::row(std::size_t slot, std::size_t part) const {
  return rows_.subspan((2 * slot + part) * whole_lines(n_params_), n_params_);
}

float& KeptPairs::scale(std::size_t slot) const { return notes_[scales_at(slots_) + slot]; }

double KeptPairs::stored(std::size_t part, std::size_t i, std::size_t j) const {
  double product;
  const std::size_t at = products_at(slots_) + 2 * ((part * slots_ + i) * slots_ + j);
  std::memcpy(&product, &notes_[at], sizeof(product));
  return product;
}

void KeptPairs::store(std::size_t part, std::size_t i, std::size_t j, double product) const {
  const std::size_t at = products_at(slots_) + 2 * ((part * slots_ + i) * slots_ + j);
  std::memcpy(&notes_[at], &product, sizeof(product));
}

FreshPair KeptPairs::begin(float factor) {
  std::vector<bool> used(slots_);
  for (const std::size_t slot : pairs_) used[slot] = true;
  for (const Fresh& pair : fresh_) used[pair.slot] = true;
  const auto slot = to_index(std::find(used.begin(), used.end(), false) - used.begin());
  scale(slot) = factor;
  fresh_.push_back({.slot = slot});
  return {.step = &views_[2 * slot + kStep], .change = &views_[2 * slot + kChange]};
}

// The last m of the pairs and the fresh ones.
std::vector<std::size_t> KeptPairs::newest() const {
  std::vector<std::size_t> all = pairs_;
  for (const Fresh& pair : fresh_) all.push_back(pair.slot);
  if (all.size() > most_) all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(most_));
  return all;
}

// Products of the fresh pairs with all that will be there, and of the gradient. y is made in the
// place of the gradient where its step began.
KeptPairs::Products KeptPairs::measure(std::span<const float> gradient, bool makes_changes) {
  const std::vector<std::size_t> pairs = newest();
  const std::size_t n = pairs.size();
  const std::size_t known = n - fresh_.size();
  Rows rows;
  for (const std::size_t slot : pairs) rows.push_back(row(slot, kStep).data());
  for (const std::size_t slot : pairs) rows.push_back(row(slot, kChange).data());
  rows.push_back(gradient.data());
  const std::size_t width = rows.size();
  std::vector<double> table((fresh_.size() + 1) * width);  // fresh y and g with all
  std::vector<double> steps(fresh_.size() * fresh_.size());
  for (std::size_t begin = 0; begin < n_params_; begin += kBlock) {
    const std::size_t length = std::min(kBlock, n_params_ - begin);
    for (const Fresh& pair : fresh_) {
      if (!makes_changes) break;
      float* y = row(pair.slot, kChange).data() + begin;
      const float* after = pair.gradient + begin;
      for (std::size_t i = 0; i < length; ++i) y[i] = after[i] - y[i];
    }
    const Rows here = from(rows, begin);
    const auto all = std::span(here);
    add_inner_products(all.subspan(n + known), all, static_cast<int64_t>(length), table);
    add_gram(all.subspan(known, fresh_.size()), static_cast<int64_t>(length), steps);
  }
  squares_.clear();
  for (std::size_t j = 0; j < fresh_.size(); ++j) {
    const double factor = scale(fresh_[j].slot);
    squares_.push_back(factor * factor * steps[j * fresh_.size() + j]);
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t slot = fresh_[j].slot;
      store(kStep, pairs[i], slot, scale(pairs[i]) * table[j * width + i]);
      store(kChange, pairs[i], slot, table[j * width + n + i]);
      store(kChange, slot, pairs[i], table[j * width + n + i]);
    }
  }
  const double* last = &table[fresh_.size() * width];
  Products products{
      .steps = {last, last + n}, .changes = {last + n, last + 2 * n}, .self = last[2 * n]};
  for (std::size_t i = 0; i < n; ++i) products.steps[i] *= scale(pairs[i]);
  return products;
}

// Did any of the fresh pairs go?
bool KeptPairs::drop_without_curvature() {
  std::vector<Fresh> good;
  for (std::size_t j = 0; j < fresh_.size(); ++j) {
    const std::size_t slot = fresh_[j].slot;
    const double s_y = stored(kStep, slot, slot);
    if (has_curvature(squares_[j], s_y, stored(kChange, slot, slot))) good.push_back(fresh_[j]);
  }
  std::swap(good, fresh_);
  return fresh_.size() < good.size();
}

void KeptPairs::keep(std::vector<std::size_t> pairs) {
  pairs_ = std::move(pairs);
  fresh_.clear();
  notes_[0] = static_cast<float>(pairs_.size());
  for (std::size_t i = 0; i < pairs_.size(); ++i) notes_[1 + i] = static_cast<float>(pairs_[i]);
}

double KeptPairs::rate_of(const Products& products) const {
  const std::size_t n = pairs_.size();
  const std::size_t size = 2 * n + 1;
  std::vector<double> gram(size * size);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      if (i <= j) gram[2 * i * size + 2 * j + 1] = stored(kStep, pairs_[i], pairs_[j]);
      gram[(2 * i + 1) * size + 2 * j + 1] = stored(kChange, pairs_[i], pairs_[j]);
    }
    gram[2 * i * size + 2 * n] = products.steps[i];
    gram[(2 * i + 1) * size + 2 * n] = products.changes[i];
    gram[2 * n * size + 2 * i + 1] = products.changes[i];
  }
  gram.back() = products.self;
  return lbfgs_rate(gram, static_cast<int64_t>(n));
}

std::optional<double> KeptPairs::rate(const GradientRecord& gradient) {
  if (pairs_.empty() && fresh_.empty()) return std::nullopt;
  Products products = measure(gradient.row(), true);
  // Older pairs then stay, whose products were not made.
  if (drop_without_curvature()) products = measure(gradient.row(), false);
  keep(newest());
  return pairs_.empty() ? std::nullopt : std::optional(rate_of(products));
}

}  // namespace hanse
