#include "sum_tree.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace hanse {

void SumTree::grow(int64_t leaves) {
  const auto before = static_cast<std::size_t>(leaves_);
  const auto capacity = std::bit_ceil(std::max<std::size_t>(1, static_cast<std::size_t>(leaves)));
  leaves_ = leaves;
  if (capacity == capacity_) return;
  std::vector<double> nodes(2 * capacity * width_);
  const auto old_leaves = nodes_.begin() + static_cast<std::ptrdiff_t>(capacity_ * width_);
  std::copy(old_leaves, old_leaves + static_cast<std::ptrdiff_t>(before * width_),
            nodes.begin() + static_cast<std::ptrdiff_t>(capacity * width_));
  nodes_ = std::move(nodes);
  capacity_ = capacity;
  refresh_all();
}

void SumTree::add_children(std::size_t parent) {
  const double* left = &nodes_[2 * parent * width_];
  const double* right = left + width_;
  double* sum = &nodes_[parent * width_];
  for (std::size_t i = 0; i < width_; ++i) sum[i] = left[i] + right[i];
}

void SumTree::refresh(std::span<const int64_t> leaves) {
  parents_.clear();
  for (const int64_t leaf : leaves) {
    parents_.push_back((capacity_ + static_cast<std::size_t>(leaf)) / 2);
  }
  std::sort(parents_.begin(), parents_.end());
  while (!parents_.empty() && parents_.front() >= 1) {  // all are on one level
    parents_.erase(std::unique(parents_.begin(), parents_.end()), parents_.end());
    for (auto& parent : parents_) {
      add_children(parent);
      parent /= 2;
    }
  }
}

void SumTree::refresh_all() {
  for (std::size_t parent = capacity_ - 1; parent >= 1; --parent) add_children(parent);
}

int64_t SumTree::find(double target, std::span<const double> coefficients) const {
  const auto mass = [&](const double* row) {
    return std::max(0.0, std::inner_product(row, row + width_, coefficients.begin(), 0.0));
  };
  std::size_t at = 1;
  while (at < capacity_) {
    const double* left = &nodes_[2 * at * width_];
    const double* right = left + width_;
    const double left_mass = mass(left);
    const bool go_right = right[width_ - 1] > 0 && (left[width_ - 1] == 0 || target >= left_mass) &&
                          (left_mass == 0 || mass(right) > 0);
    at = 2 * at + (go_right ? 1 : 0);
    if (go_right) target -= left_mass;
  }
  return static_cast<int64_t>(at - capacity_);
}

}  // namespace hanse
