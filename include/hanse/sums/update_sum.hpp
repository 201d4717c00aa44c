// The weighted sum of the participants' updates, sum_i c_i (theta_i - theta), over clients and
// ranks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "hanse/comm/comm_options.hpp"
#include "hanse/comm/communicator.hpp"

namespace hanse {

struct FoldResult {
  double squared_norm = 0;  // |theta_i - theta|^2, in float64, in a fixed order
  bool in_range = true;     // false: an addend was NaN, Inf or too large; the sum is then spoilt
};

class UpdateSum {
 public:
  static constexpr double kUnits = 0x1p44;  // units of 2^-44 in 1

  // The largest |coefficient * (row - theta)| that is in range when at most `addends` updates enter
  // one sum over all ranks: no sum can wrap.
  static double limit(int64_t addends);

  // REQUIRES: addends >= 1, the most updates that can enter one sum over all ranks.
  UpdateSum(int64_t n_params, int64_t addends, Reduction reduction);
  // A sum over `comm`, in its memory (Communicator::allocate_row). Collective.
  UpdateSum(int64_t n_params, int64_t addends, Reduction reduction, Communicator& comm);
  UpdateSum(const UpdateSum&) = delete;  // a copy would share the memory
  UpdateSum& operator=(const UpdateSum&) = delete;

  // Adds coefficient * (row - theta) and sets row = theta for the next participant: copies,
  // subtracts, weights, rounds and adds in one pass over memory. `row` and `theta` may be a part of
  // the parameters, from `begin` on. Without theta (empty) the row is the update itself, theta_i -
  // theta, and stays.
  FoldResult fold(std::span<float> row, std::span<const float> theta, double coefficient,
                  int64_t begin = 0);

  // Folds several rows of one length, 1 to kTogether, and reads and writes sum and theta once: with
  // two, each takes 0.6 of the time if no cache holds them.
  static constexpr std::size_t kTogether = 2;
  struct WeightedRow {
    std::span<float> values;
    double coefficient = 0;
  };
  std::array<FoldResult, kTogether> fold(std::span<const WeightedRow> rows,
                                         std::span<const float> theta, int64_t begin = 0);

  // Adds coefficient * update, which stays; otherwise as fold().
  FoldResult add(std::span<const float> update, double coefficient, int64_t begin = 0);

  // n integers of the exact sum from `begin` on, to add to or to read, modulo 2^64: noise and masks
  // may leave the range of addends, if they end within it. REQUIRES: Reduction::kExact.
  std::span<int64_t> integers(int64_t begin, int64_t n);
  void add_integers(std::span<const int64_t> addends, int64_t begin = 0);
  // Adds another sum of as many values and the same reduction, which stays.
  void add(const UpdateSum& other);

  // Multiplies this rank's sum. REQUIRES: 0 <= factor <= addends / number folded so far.
  void scale(double factor);

  // Sums over the ranks of `comm` to `root`. Collective.
  void reduce(Communicator& comm, int root);

  // Communicator::exchange of the sum: step() gets it as take() writes it; the sum is cleared.
  ExchangeTimes exchange(Communicator& comm, std::span<float> result, const ExchangeStep& step);

  // Writes the sum, or a part of it from `begin` on, to `out` as float32, and clears that part for
  // the next round.
  void take(std::span<float> out, int64_t begin = 0);
  void clear() { is_fresh_ = true; }

  bool is_exact() const { return reduction_ == Reduction::kExact; }
  int64_t size() const { return std::ssize(fixed_) + std::ssize(floats_); }  // values
  // Bytes on the wire.
  int64_t bytes() const { return static_cast<int64_t>(8 * fixed_.size() + 4 * floats_.size()); }
  // Largest |coefficient * (row - theta)| that is in range.
  double limit() const { return limit_; }

 private:
  UpdateSum(int64_t n_params, int64_t addends, Reduction reduction,
            std::shared_ptr<std::byte> memory);

  void settle();  // sets a fresh sum to zero

  Reduction reduction_;
  double limit_;
  bool is_fresh_ = false;  // nothing was added yet; the memory is undefined
  std::shared_ptr<std::byte> memory_;
  std::span<int64_t> fixed_;  // [P] in units of 2^-44 (exact)
  std::span<float> floats_;   // [P] (fast)
};

}  // namespace hanse
