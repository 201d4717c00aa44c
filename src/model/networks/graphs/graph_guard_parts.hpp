// Checks of what kernels of graphs' operators trust (graph_guards.hpp), in parts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include <ATen/ATen.h>

#include "hanse/base/index.hpp"

namespace hanse::guards {

using Arguments = std::vector<c10::IValue>;

inline void require(bool holds) {
  if (!holds) throw std::invalid_argument("its arguments do not fit together");
}

inline const at::Tensor& tensor_at(const Arguments& arguments, std::size_t i) {
  return arguments.at(i).toTensor();
}

inline bool is_given(const Arguments& arguments, std::size_t i) {
  return !arguments.at(i).isNone() && tensor_at(arguments, i).defined();
}

template <class Integer>
bool are_below(const at::Tensor& places, int64_t end) {
  const at::Tensor dense = places.contiguous();
  const auto* const values = dense.data_ptr<Integer>();
  bool good = true;
  for (int64_t i = 0; i < dense.numel(); ++i) good = good && values[i] >= 0 && values[i] < end;
  return good;
}

// Are all values of a tensor of integers in [0, end)? A device looks itself, and fails by its own
// error: the host does not wait.
inline void require_below(const at::Tensor& places, int64_t end) {
  require(places.scalar_type() == at::kLong || places.scalar_type() == at::kInt);
  if (!places.is_cpu()) {
    at::_assert_async(at::logical_and(places.ge(0), places.lt(end)).all());
    return;
  }
  require(places.scalar_type() == at::kLong ? are_below<int64_t>(places, end)
                                            : are_below<int32_t>(places, end));
}

// No file is so wide that it needs more: a view of one value may have any number of them, and a
// list of views may fill the memory.
constexpr double kMostValues = 0x1p31, kMostParts = 0x1p17;

inline void require_values(const std::vector<int64_t>& shape) {
  double values = 1;
  for (const int64_t side : shape) values *= static_cast<double>(std::max<int64_t>(side, 0));
  require(values <= kMostValues);
}

inline double side_of(const Arguments& arguments, std::size_t axis_place) {
  const at::Tensor& tensor = tensor_at(arguments, 0);
  const int64_t axis = arguments.at(axis_place).toInt();
  require(axis >= -tensor.dim() && axis < tensor.dim());
  return static_cast<double>(tensor.size(axis));
}

// Operators that look for places in tensors: windows, points of a grid, distances, searches.
void check_unfold(const Arguments& arguments);
void check_unfold_backward(const Arguments& arguments);
void check_distance_backward(const Arguments& arguments);
void check_grid_2d(const Arguments& arguments);
void check_grid_2d_backward(const Arguments& arguments);
void check_grid_3d(const Arguments& arguments);
void check_grid_3d_backward(const Arguments& arguments);
void check_affine_grid(const Arguments& arguments);
void check_search(const Arguments& arguments);

}  // namespace hanse::guards
