// Sums of rows of numbers over ranges of leaves.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hanse {

// A binary tree of rows [width]. Every inner node is its left child plus its right child, computed
// from them anew whenever one changes: the sums depend on the leaves alone, not on their history,
// and no error piles up.
//
// The last column of a row counts: 1 in a leaf that find() may return, 0 elsewhere.
class SumTree {
 public:
  explicit SumTree(int64_t width) : width_(static_cast<std::size_t>(width)), nodes_(2 * width_) {}

  int64_t leaves() const { return leaves_; }

  // Makes room for `leaves` in all; new ones are zero. Amortised O(width) a leaf.
  void grow(int64_t leaves);

  // The row of a leaf. After a change, refresh() with that leaf is due.
  std::span<double> leaf(int64_t i) { return {&nodes_[node(i)], width_}; }
  std::span<const double> leaf(int64_t i) const { return {&nodes_[node(i)], width_}; }

  // Recomputes the sums above the leaves. Cost O(width log leaves) each; they may repeat.
  void refresh(std::span<const int64_t> leaves);
  void refresh_all();

  // Sums over all leaves.
  std::span<const double> total() const { return {&nodes_[width_], width_}; }

  // The leaf at which the running sum of the leaves' masses first exceeds `target`; the mass of a
  // row is its product with `coefficients` [width], and counts as 0 below it. Never a leaf whose
  // count is 0, nor one without mass while another has some, however the sums are rounded.
  // REQUIRES: total().back() >= 1.
  // Cost O(width log leaves).
  int64_t find(double target, std::span<const double> coefficients) const;

 private:
  std::size_t node(int64_t leaf) const {
    return (capacity_ + static_cast<std::size_t>(leaf)) * width_;
  }
  void add_children(std::size_t parent);

  std::size_t width_;
  int64_t leaves_ = 0;
  std::size_t capacity_ = 1;          // leaves that there is room for, a power of two
  std::vector<double> nodes_;         // [2 capacity, width]: 1 is the root, capacity + i the leaf i
  std::vector<std::size_t> parents_;  // of refresh()
};

}  // namespace hanse
