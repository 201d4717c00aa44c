#include "hanse/sums/update_sum.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fold_kernels.hpp"
#include "hanse/base/aligned.hpp"
#include "hanse/base/index.hpp"
#include "hanse/comm/element.hpp"
#include "hanse/sums/fold_entry.hpp"

namespace hanse {

namespace {

void fold_fast(std::span<float> row, std::span<const float> theta, std::span<float> sum,
               float coefficient, FoldSums& sums) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    const FastEntry entry = fast_entry(row[i], theta.empty() ? 0 : theta[i], coefficient);
    const auto delta = static_cast<double>(entry.delta);
    sums.squared[i % FoldSums::kLanes] += delta * delta;
    sums.in_range = sums.in_range && entry.fits;
    sum[i] += entry.addend;
    if (!theta.empty()) row[i] = theta[i];
  }
}

ElementType type_of(Reduction reduction) {
  return reduction == Reduction::kExact ? ElementType::kInt64 : ElementType::kFloat;
}

}  // namespace

// One bit below the exact bound keeps the product's rounding inside it.
double UpdateSum::limit(int64_t addends) {
  return 0x1p62 / static_cast<double>(std::max<int64_t>(addends, 1)) / kUnits;
}

UpdateSum::UpdateSum(int64_t n_params, int64_t addends, Reduction reduction,
                     std::shared_ptr<std::byte> memory)
    : reduction_(reduction), limit_(limit(addends)), memory_(std::move(memory)) {
  if (reduction == Reduction::kExact) {
    fixed_ = {reinterpret_cast<int64_t*>(memory_.get()), to_index(n_params)};
  } else {
    floats_ = {reinterpret_cast<float*>(memory_.get()), to_index(n_params)};
  }
}

UpdateSum::UpdateSum(int64_t n_params, int64_t addends, Reduction reduction)
    : UpdateSum(n_params, addends, reduction,
                zeroed_lines(n_params * element_bytes(type_of(reduction)))) {}

UpdateSum::UpdateSum(int64_t n_params, int64_t addends, Reduction reduction, Communicator& comm)
    : UpdateSum(n_params, addends, reduction, comm.allocate_row(type_of(reduction), n_params)) {}

std::array<FoldResult, UpdateSum::kTogether> UpdateSum::fold(std::span<const WeightedRow> rows,
                                                             std::span<const float> theta,
                                                             int64_t begin) {
  static_assert(kTogether == kMostFolded);
  static const FoldKernel fold_exact = fold_kernels().front();
  const std::size_t n = rows.front().values.size();
  if (n == 0) return {};
  FoldSums sums[kTogether];
  const bool whole = reduction_ == Reduction::kExact && n == fixed_.size();
  if (!whole) settle();
  if (reduction_ == Reduction::kExact) {
    FoldRow scaled[kTogether];
    for (std::size_t r = 0; r < rows.size(); ++r) {
      scaled[r] = {rows[r].values.data(), rows[r].coefficient * kUnits};
    }
    const FoldTarget target{.fixed = fixed_.data() + begin,
                            .n = n,
                            .limit = limit_ * kUnits,
                            .is_fresh = std::exchange(is_fresh_, false)};
    fold_exact({scaled, rows.size()}, theta.empty() ? nullptr : theta.data(), target, sums);
  } else {
    for (std::size_t r = 0; r < rows.size(); ++r) {
      fold_fast(rows[r].values, theta, floats_.subspan(static_cast<std::size_t>(begin), n),
                static_cast<float>(rows[r].coefficient), sums[r]);
    }
  }
  std::array<FoldResult, kTogether> results;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (const double lane : sums[r].squared) results[r].squared_norm += lane;
    results[r].in_range = sums[r].in_range && std::isfinite(results[r].squared_norm);
  }
  return results;
}

FoldResult UpdateSum::fold(std::span<float> row, std::span<const float> theta, double coefficient,
                           int64_t begin) {
  const WeightedRow one{row, coefficient};
  return fold(std::span(&one, 1), theta, begin)[0];
}

// Nothing is written to the row without an origin.
FoldResult UpdateSum::add(std::span<const float> update, double coefficient, int64_t begin) {
  return fold({const_cast<float*>(update.data()), update.size()}, {}, coefficient, begin);
}

std::span<int64_t> UpdateSum::integers(int64_t begin, int64_t n) {
  settle();
  return fixed_.subspan(to_index(begin), to_index(n));
}

void UpdateSum::add_integers(std::span<const int64_t> addends, int64_t begin) {
  const auto sum = integers(begin, std::ssize(addends));
  add_elements(ElementType::kInt64, reinterpret_cast<const std::byte*>(addends.data()),
               std::ssize(addends), reinterpret_cast<std::byte*>(sum.data()));
}

void UpdateSum::add(const UpdateSum& other) {
  if (other.is_fresh_) return;
  settle();
  add_elements(type_of(reduction_), other.memory_.get(), size(), memory_.get());
}

void UpdateSum::scale(double factor) {
  if (is_fresh_) return;
  for (int64_t& value : fixed_) value = std::llround(static_cast<double>(value) * factor);
  for (float& value : floats_) value *= static_cast<float>(factor);
}

void UpdateSum::reduce(Communicator& comm, int root) {
  settle();
  if (reduction_ == Reduction::kExact) {
    comm.reduce(fixed_, ReduceOp::kSum, root);
  } else {
    comm.reduce(floats_, ReduceOp::kSum, root);
  }
}

ExchangeTimes UpdateSum::exchange(Communicator& comm, std::span<float> result,
                                  const ExchangeStep& step) {
  settle();
  is_fresh_ = true;
  return reduction_ == Reduction::kExact ? comm.exchange(fixed_, 1 / kUnits, result, step)
                                         : comm.exchange(floats_, 1, result, step);
}

void UpdateSum::take(std::span<float> out, int64_t begin) {
  settle();
  const ElementType type = type_of(reduction_);
  std::byte* first = memory_.get() + begin * element_bytes(type);
  take_elements(type, first, std::ssize(out), 1 / kUnits, out.data());
  std::fill_n(first, std::ssize(out) * element_bytes(type), std::byte{0});
}

void UpdateSum::settle() {
  if (!std::exchange(is_fresh_, false)) return;
  std::fill(fixed_.begin(), fixed_.end(), 0);
  std::fill(floats_.begin(), floats_.end(), 0.0F);
}

}  // namespace hanse
