// Exact sums of float64 terms, one term a sample: the integer does not depend on the order of the
// samples, nor on how they are divided among clients and ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hanse {

// E of a bound: the least integer with bound <= 2^E; 0 of the bound 0. Throws Error where the bound
// is not finite or negative.
int tally_exponent(double bound);

// m numbers, each the sum over samples of one term at most a sample. A term t of a number with
// |t| <= bound <= 2^E counts as
//   k = t 2^(42 - E), rounded to the nearest integer, half to even, |k| <= 2^42,
// and the sum of k is an integer; the number is that integer times 2^(E - 42), rounded once. Of n
// terms it is off by n / 2 units of 2^(E - 42) at most, sqrt(n / 12) typically.
// How: r = (t + c) - c with c = 1.5 * 2^(10 + E) rounds as above, and 2^10 such r add in float64
// without rounding; then they go into 128 bits. No limit on samples below 2^85.
// Cost: 32 bytes a number; an addition of a term is four operations of float64.
class Tally {
 public:
  Tally() = default;
  // `bounds` [m] of the terms of each number, which must not depend on the order of samples: exact
  // maxima, or known. Throws Error as tally_exponent() does.
  explicit Tally(std::span<const double> bounds);
  // m numbers with one bound.
  Tally(std::size_t m, double bound);

  std::size_t size() const { return sums_.size(); }

  // Begins the terms of the next sample.
  void next_sample() {
    if (pending_ == kPending) flush();
    ++pending_;
  }
  // REQUIRES: |term| <= bound, and the number has no other term of this sample.
  void add(std::size_t number, double term) {
    partial_[number] += (term + magic_[number]) - magic_[number];
  }
  // Adds weight x_j x_k for all k <= j to the numbers from `begin` on, in the order (0,0), (1,0),
  // (1,1), (2,0), ...: the term is (weight x_j) x_k, rounded after each product. REQUIRES: all
  // these numbers have one bound.
  void add_products(std::size_t begin, double weight, std::span<const double> x);
  // Adds factor x_j to the numbers from `begin` on. REQUIRES: they have one bound.
  void add_row(std::size_t begin, double factor, std::span<const double> x);

  // The sum. Throws Error where a term was beyond its bound, or NaN.
  double value(std::size_t number);
  std::vector<double> values();

  // Four limbs of 32 bits a number, for sums over ranks as int64_t: limbs may be added up to 2^31
  // times before they are read again. [4 m]
  std::vector<int64_t> limbs();
  void set_limbs(std::span<const int64_t> limbs);

 private:
  static constexpr int64_t kPending = 1024;

  void flush();

  std::vector<double> magic_;    // c
  std::vector<double> partial_;  // of terms since the last flush()
  std::vector<__int128> sums_;   // in units of 2^(E - 42)
  int64_t pending_ = 0;          // samples since the last flush()
};

// The places of the products (j, k), k <= j, of add_products() for n factors.
constexpr std::size_t packed_size(std::size_t n) { return n * (n + 1) / 2; }
constexpr std::size_t packed_place(std::size_t j, std::size_t k) {
  return j >= k ? j * (j + 1) / 2 + k : k * (k + 1) / 2 + j;
}

}  // namespace hanse
