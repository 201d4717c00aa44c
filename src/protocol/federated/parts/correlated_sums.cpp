#include "federated/parts/correlated_sums.hpp"

#include <algorithm>
#include <utility>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/wrapping.hpp"
#include "hanse/rules/privacy/correlation.hpp"
#include "hanse/rules/privacy/secret.hpp"

namespace hanse {

namespace {

constexpr std::size_t kBlock = 4096;  // entries of a mask that have a stream

// Calls use(begin, mask) for each block of the key's mask.
template <class Use>
void for_mask(const CipherKey& key, std::size_t n_params, Use use) {
  std::vector<int64_t> mask(std::min(kBlock, n_params));
  for (std::size_t begin = 0; begin < n_params; begin += kBlock) {
    CipherStream words(key, begin / kBlock);
    const auto block = std::span(mask).first(std::min(kBlock, n_params - begin));
    for (int64_t& entry : block) entry = static_cast<int64_t>(words.next());
    use(begin, block);
  }
}

// Puts a row of zeros before the others, of which `most` stay at most: the last one's memory again.
template <class T>
void push_front_again(std::deque<std::vector<T>>& rows, std::size_t most, std::size_t width) {
  std::vector<T> row;
  if (rows.size() >= most) {
    row = std::move(rows.back());
    rows.pop_back();
  }
  row.assign(width, 0);
  rows.push_front(std::move(row));
}

template <class T>
std::vector<T> joined(const std::deque<std::vector<T>>& rows, std::size_t most) {
  std::vector<T> all;
  for (std::size_t i = 0; i < std::min(most, rows.size()); ++i) {
    all.insert(all.end(), rows[i].begin(), rows[i].end());
  }
  return all;
}

template <class T>
std::deque<std::vector<T>> split(const std::vector<T>& all, std::size_t width) {
  std::deque<std::vector<T>> rows;
  for (auto row = all.begin(); row < all.end(); row += static_cast<std::ptrdiff_t>(width)) {
    rows.emplace_back(row, row + static_cast<std::ptrdiff_t>(width));
  }
  return rows;
}

}  // namespace

CorrelatedSums::CorrelatedSums(const std::vector<int64_t>& numerators, Communicator& comm,
                               int64_t n_params)
    : numerators_(numerators), comm_(comm), n_params_(to_index(n_params)) {
  const int64_t rows = std::ssize(numerators) * (comm.rank() == 0 ? 2 : 1);
  require_memory(8 * rows * n_params, "the sums of the rounds that noise is correlated over take",
                 "privacy.correlation", "banded keeps privacy.bands rounds");
}

void CorrelatedSums::begin(const CipherKey& mask) {
  push_front_again(sums_, numerators_.size(), n_params_);
  if (comm_.rank() != 0) return;
  masks_.insert(masks_.begin(), mask);
  masks_.resize(sums_.size());
  for_mask(mask, n_params_, [&](std::size_t begin, std::span<const int64_t> words) {
    std::ranges::copy(words, sums_.front().begin() + static_cast<std::ptrdiff_t>(begin));
  });
}

void CorrelatedSums::add(std::span<const int64_t> update) { add_encoded(update, 1, sums_.front()); }

void CorrelatedSums::encode(std::span<int64_t> y) {
  for (std::size_t j = 0; j < sums_.size(); ++j) {
    add_encoded(sums_[j], numerators_[j], y);
    if (comm_.rank() != 0) continue;
    for_mask(masks_[j], n_params_, [&](std::size_t begin, std::span<const int64_t> mask) {
      add_encoded(mask, -numerators_[j], y.subspan(begin, mask.size()));
    });
  }
}

std::span<const double> CorrelatedSums::decode(std::span<const int64_t> y) {
  push_front_again(estimates_, numerators_.size(), n_params_);
  const std::vector<std::span<const double>> before(estimates_.begin() + 1, estimates_.end());
  hanse::decode(y, numerators_, before, estimates_.front());
  return estimates_.front();
}

void CorrelatedSums::collect() {
  for (auto& sum : sums_) {
    comm_.reduce(std::span(sum), ReduceOp::kSum, 0);
    if (comm_.rank() != 0) std::ranges::fill(sum, 0);
  }
}

void CorrelatedSums::forget() {
  sums_.clear();
  masks_.clear();
  estimates_.clear();
}

void CorrelatedSums::share() {
  auto rows = static_cast<int64_t>(sums_.size());
  comm_.bcast(std::span(&rows, 1), 0);
  if (comm_.rank() == 0) return;
  sums_.assign(to_index(rows), std::vector<int64_t>(n_params_));
}

void CorrelatedSums::visit(StateFields& fields) {
  // The next round needs no more.
  const std::ptrdiff_t bands = std::ssize(numerators_) - 1;
  auto sums = joined(sums_, numerators_.size() - 1);
  auto estimates = joined(estimates_, numerators_.size() - 1);
  std::vector<CipherKey> masks(masks_.begin(),
                               masks_.begin() + std::min(std::ssize(masks_), bands));
  fields.all("sums", sums);
  visit_keys("masks", masks, fields);
  fields.all("estimates", estimates);
  if (!fields.loads()) return;
  sums_ = split(sums, n_params_);
  masks_ = std::move(masks);
  estimates_ = split(estimates, n_params_);
}

}  // namespace hanse
