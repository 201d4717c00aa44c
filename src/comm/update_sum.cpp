#include "hanse/comm/update_sum.hpp"

#include <algorithm>
#include <cmath>

// The same source for every instruction set: each operation is exactly specified (contraction is
// off, lanes are fixed), so the clones give the same bits.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define HANSE_CLONES __attribute__((target_clones("arch=skylake-avx512", "avx2", "default")))
#else
#define HANSE_CLONES
#endif

namespace hanse {

namespace {

constexpr double kScale = 0x1p44;  // 2^kFractionBits
constexpr std::size_t kLanes = 16;

struct Lanes {
  double squared[kLanes] = {};
  int64_t out_of_range[kLanes] = {};
};

double sum_of(const double* lanes) {
  double sum = 0;
  for (std::size_t l = 0; l < kLanes; ++l) sum += lanes[l];
  return sum;
}

// fixed += round(scale * (row - theta)); row = theta. Out-of-range addends count as `limit`, so that
// the conversion is defined; `out_of_range` tells of them.
HANSE_CLONES
void fold_exact(float* __restrict row, const float* __restrict theta, int64_t* __restrict fixed,
                std::size_t n, double scale, double limit, Lanes& lanes) {
  double squared[kLanes] = {};
  int64_t out_of_range[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t l = 0; l < kLanes; ++l) {
      const float base = theta[i + l];
      const double delta = static_cast<double>(row[i + l]) - static_cast<double>(base);
      const double addend = delta * scale;
      const double size = std::fabs(addend);
      squared[l] += delta * delta;
      out_of_range[l] |= size <= limit ? 0 : 1;  // NaN too
      fixed[i + l] += static_cast<int64_t>(std::nearbyint(size <= limit ? addend : limit));
      row[i + l] = base;
    }
  }
  for (; i < n; ++i) {
    const std::size_t l = i % kLanes;
    const double delta = static_cast<double>(row[i]) - static_cast<double>(theta[i]);
    const double addend = delta * scale;
    const double size = std::fabs(addend);
    squared[l] += delta * delta;
    out_of_range[l] |= size <= limit ? 0 : 1;  // NaN too
    fixed[i] += static_cast<int64_t>(std::nearbyint(size <= limit ? addend : limit));
    row[i] = theta[i];
  }
  for (std::size_t l = 0; l < kLanes; ++l) {
    lanes.squared[l] = squared[l];
    lanes.out_of_range[l] = out_of_range[l];
  }
}

HANSE_CLONES
void fold_fast(float* __restrict row, const float* __restrict theta, float* __restrict sum,
               std::size_t n, float coefficient, Lanes& lanes) {
  double squared[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t l = 0; l < kLanes; ++l) {
      const float delta = row[i + l] - theta[i + l];
      squared[l] += static_cast<double>(delta) * static_cast<double>(delta);
      sum[i + l] += coefficient * delta;
      row[i + l] = theta[i + l];
    }
  }
  for (; i < n; ++i) {
    const float delta = row[i] - theta[i];
    squared[i % kLanes] += static_cast<double>(delta) * static_cast<double>(delta);
    sum[i] += coefficient * delta;
    row[i] = theta[i];
  }
  for (std::size_t l = 0; l < kLanes; ++l) lanes.squared[l] = squared[l];
}

HANSE_CLONES
void take_fixed(int64_t* __restrict fixed, float* __restrict out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = static_cast<float>(static_cast<double>(fixed[i]) * (1.0 / kScale));
    fixed[i] = 0;
  }
}

}  // namespace

UpdateSum::UpdateSum(int64_t n_params, int64_t addends, Reduction reduction)
    : reduction_(reduction),
      // One bit below the exact bound keeps the product's rounding inside it.
      limit_(0x1p62 / static_cast<double>(std::max<int64_t>(addends, 1)) / kScale) {
  const auto n = static_cast<std::size_t>(n_params);
  if (reduction == Reduction::kExact) {
    fixed_.resize(n);
  } else {
    floats_.resize(n);
  }
}

FoldResult UpdateSum::fold(std::span<float> row, std::span<const float> theta,
                           double coefficient) {
  Lanes lanes;
  FoldResult result;
  if (reduction_ == Reduction::kExact) {
    const double limit = std::min(limit_ * kScale, 0x1p62);
    fold_exact(row.data(), theta.data(), fixed_.data(), row.size(), coefficient * kScale, limit,
               lanes);
    for (const int64_t bad : lanes.out_of_range) result.in_range = result.in_range && bad == 0;
  } else {
    fold_fast(row.data(), theta.data(), floats_.data(), row.size(),
              static_cast<float>(coefficient), lanes);
  }
  result.squared_norm = sum_of(lanes.squared);
  result.in_range = result.in_range && std::isfinite(result.squared_norm);
  return result;
}

void UpdateSum::reduce(Communicator& comm, int root) {
  if (reduction_ == Reduction::kExact) {
    comm.reduce(std::span(fixed_), ReduceOp::kSum, root);
  } else {
    comm.reduce(std::span(floats_), ReduceOp::kSum, root);
  }
}

void UpdateSum::take(std::span<float> out) {
  if (reduction_ == Reduction::kExact) {
    take_fixed(fixed_.data(), out.data(), out.size());
  } else {
    std::copy(floats_.begin(), floats_.end(), out.begin());
    clear();
  }
}

void UpdateSum::clear() {
  std::fill(fixed_.begin(), fixed_.end(), 0);
  std::fill(floats_.begin(), floats_.end(), 0.0F);
}

}  // namespace hanse
