// What comes before a robust rule: maps of the rows that make byzantine ones harmless or similar.
//
// All of them are linear in the rows once the inner products are known: y_a = sum_i M_ai u_i, with
// M [n', n]. So the inner products become M G M^T, and coefficients c' of the y become M^T c' of
// the u. No row is touched.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hanse/rules/aggregation/gram_view.hpp"

namespace hanse {

enum class PreRuleKind { kClip, kArc, kNnm, kBucketing };

struct PreRule {
  PreRuleKind kind = PreRuleKind::kClip;
  double number = 0;  // clip: the longest row; bucketing: rows of a bucket
  bool operator==(const PreRule&) const = default;
};

// aggregator.before: "none", or "clip(2), nnm", in the order in which they are applied.
struct PreRules {
  std::vector<PreRule> list;

  // Throws InvalidArgument: an unknown word, or a number that the word does not take.
  static PreRules parse(std::string_view text);
  std::string text() const;  // parse(text()) is *this
  bool has(PreRuleKind kind) const;
};

// y_a = sum_i weights_ai u_i / divisor_a. The division comes last, so that means of equal
// coefficients stay exact.
struct RowMap {
  std::vector<double> weights;   // [to, from]
  std::vector<double> divisors;  // [to]
  std::size_t from = 0;

  std::size_t to() const { return divisors.size(); }
};

// clip(c): u_i <- min(1, c / |u_i|) u_i. REQUIRES: c > 0. Cost: O(n).
RowMap clip_rows(const GramView& gram, double longest);

// ARC, adaptive clipping (Allouah et al. 2024, ByzFL): the k = floor(2 (f/n) (n - f)) longest rows
// are clipped to the length of the (k+1)-th longest, which this is. REQUIRES: 2f <= n. Cost:
// O(n log n).
double arc_radius(const GramView& gram, int64_t f);

// NNM, nearest-neighbour mixing (Allouah et al. 2023): y_i is the mean of the n - f rows nearest to
// u_i, itself among them. REQUIRES: f < n. Cost: O(n^2 log n), and O(n^3) for the products.
RowMap mix_nearest(const GramView& gram, int64_t f);

// Bucketing (Karimireddy, He and Jaggi 2022): the means of `size` rows that follow each other in
// `permutation` [n], the last of what is left: n' = ceil(n / size). At most f of the means hold a
// byzantine row, so f stays. REQUIRES: size >= 1, a permutation.
RowMap bucket_rows(std::span<const int64_t> permutation, int64_t size);

// The permutation of a round's `n` rows: stream (seed, kBucket, round).
std::vector<int64_t> bucket_permutation(uint64_t seed, int64_t round, std::size_t n);

// What several maps make of n rows, whose products must outlive it. `extra` rows at the end stay as
// they are, whatever is applied: those that a rule brings along.
class MappedRows {
 public:
  explicit MappedRows(const GramView& gram, std::size_t extra = 0)
      : from_(gram.n), extra_(extra), gram_(gram) {}

  // Applies the rules to the rows as they are by now. `permutation` [n] is for the bucketing that
  // comes first; a second one takes its rows in order.
  void apply(const PreRules& rules, int64_t f, std::span<const int64_t> permutation);

  GramView gram() const { return gram_; }  // [n', n'], valid until the next apply()
  // Those of gram() with the same bits for rows that are the same combination: between them, and
  // between groups of them, rounding decides no tie. `room` keeps them where rows are mapped. Cost:
  // O(n'^2 n).
  GramView even(std::vector<double>& room) const;
  // [n] M^T c' for coefficients c' [n'] of the mapped rows, each sum rounded once.
  std::vector<double> pull_back(std::span<const double> coefficients) const;
  // [n', n] M.
  std::vector<double> matrix() const;
  // The length to which the last clip or arc has clipped; NaN where there was none.
  double radius() const { return radius_; }

 private:
  void append(RowMap own);

  std::size_t from_;
  std::size_t extra_;
  std::vector<double> entries_;  // of the mapped rows; empty: nothing is mapped
  GramView gram_;
  double radius_ = std::numeric_limits<double>::quiet_NaN();
  std::vector<RowMap> maps_;
};

}  // namespace hanse
