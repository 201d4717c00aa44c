#include <ATen/ExpandUtils.h>

#include "networks/graphs/graph_guard_parts.hpp"

namespace hanse::guards {

namespace {

// images, grid, interpolation, padding; in backward the gradient comes first
template <int64_t axes, std::size_t first>
void check_grid(const Arguments& arguments) {
  const at::Tensor &images = tensor_at(arguments, first), &grid = tensor_at(arguments, first + 1);
  require(images.dim() == axes + 2 && grid.dim() == axes + 2 && images.size(0) == grid.size(0));
  const int64_t interpolation = arguments.at(first + 2).toInt(),
                padding = arguments.at(first + 3).toInt();
  require(interpolation >= 0 && interpolation <= (axes == 2 ? 2 : 1));
  require(padding >= 0 && padding <= 2);
  if (first == 0) return;
  std::vector<int64_t> shape = {images.size(0), images.size(1)};
  for (int64_t axis = 1; axis <= axes; ++axis) shape.push_back(grid.size(axis));
  require(tensor_at(arguments, 0).sizes() == shape);
  for (const at::Tensor* other : {&images, &grid}) {
    require(other->scalar_type() == tensor_at(arguments, 0).scalar_type());
  }
}

}  // namespace

// tensor, axis, length of a window, step
void check_unfold(const Arguments& arguments) {
  const double side = side_of(arguments, 1), size = static_cast<double>(arguments.at(2).toInt()),
               step = static_cast<double>(arguments.at(3).toInt());
  require(size >= 0 && size <= side && step > 0);
  const auto values = static_cast<double>(tensor_at(arguments, 0).numel());
  require(side == 0 || values / side * ((side - size) / step + 1) * size <= kMostValues);
}

// gradient, sizes of the tensor, axis, length of a window, step
void check_unfold_backward(const Arguments& arguments) {
  std::vector<int64_t> sizes = arguments.at(1).toIntVector();
  int64_t axis = arguments.at(2).toInt();
  const int64_t size = arguments.at(3).toInt(), step = arguments.at(4).toInt();
  if (axis < 0) axis += std::ssize(sizes);
  require(axis >= 0 && axis < std::ssize(sizes) && step > 0 && size > 0);
  require_values(sizes);
  int64_t& side = sizes[to_index(axis)];
  require(size <= side);
  side = (side - size) / step + 1;
  sizes.push_back(size);
  require(tensor_at(arguments, 0).sizes() == sizes);
}

// gradient, a [..., p, d], b [..., q, d], order, distances
void check_distance_backward(const Arguments& arguments) {
  const at::Tensor &gradient = tensor_at(arguments, 0), &a = tensor_at(arguments, 1),
                   &b = tensor_at(arguments, 2), &distances = tensor_at(arguments, 4);
  require(a.dim() >= 2 && b.dim() >= 2 && a.size(-1) == b.size(-1));
  require(gradient.sizes() == distances.sizes());
  std::vector<int64_t> shape = at::infer_size(a.sizes().slice(0, to_index(a.dim() - 2)),
                                              b.sizes().slice(0, to_index(b.dim() - 2)));
  shape.push_back(a.size(-2));
  shape.push_back(b.size(-2));
  require(gradient.sizes() == shape);
  for (const at::Tensor* other : {&a, &b, &distances}) {
    require(other->scalar_type() == gradient.scalar_type());
  }
}

void check_grid_2d(const Arguments& arguments) { check_grid<2, 0>(arguments); }
void check_grid_2d_backward(const Arguments& arguments) { check_grid<2, 1>(arguments); }
void check_grid_3d(const Arguments& arguments) { check_grid<3, 0>(arguments); }
void check_grid_3d_backward(const Arguments& arguments) { check_grid<3, 1>(arguments); }

// transforms [n, axes, axes + 1], size of the images
void check_affine_grid(const Arguments& arguments) {
  const auto size = arguments.at(1).toIntVector();
  require(size.size() == 4 || size.size() == 5);
  require_values(size);
  require(tensor_at(arguments, 0).dim() == 3);
}

// values in order, values to find, ..., places by which the first are in order
void check_search(const Arguments& arguments) {
  if (!is_given(arguments, 5)) return;
  require(tensor_at(arguments, 0).dim() > 0);
  require_below(tensor_at(arguments, 5), tensor_at(arguments, 0).size(-1));
}

}  // namespace hanse::guards
