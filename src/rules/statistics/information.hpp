// The information matrix of a fit, and what follows from it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hanse {

// A symmetric positive definite matrix of q rows, packed as Tally's products. It is scaled to a
// diagonal of ones before it is factored, row after row, so that a row that depends on those before
// it is found by name. Cost: q^3 / 3 operations.
class Information {
 public:
  static constexpr double kLeastPivot = 1e-10;  // of a row that depends on no others it is 1

  Information(std::span<const double> packed, std::size_t q);

  // The first row that depends on those before it; -1: there is none.
  int64_t dependent() const { return dependent_; }
  // REQUIRES: dependent() is -1.
  std::vector<double> solve(std::span<const double> b) const;
  std::vector<double> inverse() const;  // packed

 private:
  std::size_t q_;
  std::vector<double> scale_;  // 1 / sqrt of the diagonal
  std::vector<double> lower_;  // packed
  int64_t dependent_ = -1;
};

// T matrix T' of packed symmetric matrices: `by` [q, q] by rows. Cost: 2 q^3.
std::vector<double> transformed(std::span<const double> packed, std::span<const double> by,
                                std::size_t q);

}  // namespace hanse
