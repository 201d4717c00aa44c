#include "networks/graphs/graph_kernels.hpp"

#include <algorithm>
#include <map>

#include <ATen/ATen.h>
#include <ATen/NativeFunctions.h>

#include "hanse/base/index.hpp"
#include "kernels/layer_kernels.hpp"
#include "kernels/lstm_kernels.hpp"
#include "networks/graphs/graph_layers.hpp"

namespace hanse {

namespace {

// Values of one tensor for which LibTorch's loops, which use wider vectors, are not worth their
// call.
constexpr int64_t kSmall = 4096;
constexpr int64_t kMostParts = 1024;  // of a tensor that is split

const at::Tensor& tensor_at(const GraphArguments& arguments, std::size_t i) {
  return arguments[i]->toTensor();
}

bool is_float(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat && tensor.layout() == at::kStrided;
}

// Several tensors of one shape as rows of neighbours.
class Rows {
 public:
  explicit Rows(const at::Tensor& first) : sizes_(first.sizes()) { add(first); }

  void add(const at::Tensor& tensor) {
    good_ = good_ && is_float(tensor) && tensor.sizes() == sizes_ && tensor.numel() <= kSmall;
    if (!good_ || tensor.is_contiguous()) return;
    whole_ = false;
    good_ = tensor.dim() == 2 && tensor.stride(1) == 1;
  }

  bool are_good() const { return good_; }
  // Does each value have memory of its own?
  bool are_apart(const at::Tensor& tensor) const { return whole_ || tensor.stride(0) >= sizes_[1]; }
  int64_t count() const { return whole_ ? 1 : sizes_[0]; }
  int64_t size(const at::Tensor& tensor) const { return whole_ ? tensor.numel() : sizes_[1]; }
  int64_t stride(const at::Tensor& tensor) const { return whole_ ? 0 : tensor.stride(0); }

 private:
  at::IntArrayRef sizes_;
  bool good_ = true, whole_ = true;
};

template <class F>
at::Tensor map(const Rows& rows, const at::Tensor& a, const at::Tensor& out, F f) {
  const int64_t size = rows.size(a), a_row = rows.stride(a), out_row = rows.stride(out);
  const float* x = a.data_ptr<float>();
  float* z = out.data_ptr<float>();
  for (int64_t r = 0; r < rows.count(); ++r, x += a_row, z += out_row) {
    for (int64_t i = 0; i < size; ++i) z[i] = f(x[i]);
  }
  return out;
}

template <class F>
at::Tensor map(const Rows& rows, const at::Tensor& a, const at::Tensor& b, const at::Tensor& out,
               F f) {
  const int64_t size = rows.size(a), a_row = rows.stride(a), b_row = rows.stride(b),
                out_row = rows.stride(out);
  const float *x = a.data_ptr<float>(), *y = b.data_ptr<float>();
  float* z = out.data_ptr<float>();
  for (int64_t r = 0; r < rows.count(); ++r, x += a_row, y += b_row, z += out_row) {
    for (int64_t i = 0; i < size; ++i) z[i] = f(x[i], y[i]);
  }
  return out;
}

// Where the result lies: a new tensor, or the first argument.
enum class Place { kNew, kFirst };

template <Place place>
bool has_place(const Rows& rows, const at::Tensor& a) {
  return rows.are_good() && (place == Place::kNew || rows.are_apart(a));
}

template <Place place>
at::Tensor result_for(const at::Tensor& a) {
  return place == Place::kFirst ? a : new_tensor(a.sizes());
}

template <Place place, class F>
c10::IValue of_one(const GraphArguments& arguments, F f) {
  const at::Tensor& a = tensor_at(arguments, 0);
  const Rows rows(a);
  if (!has_place<place>(rows, a)) return {};
  return map(rows, a, result_for<place>(a), f);
}

// A number, or a tensor of no axes.
bool as_number(const c10::IValue& value, float& number) {
  if (value.isScalar()) {
    number = value.toScalar().to<float>();
    return true;
  }
  if (!value.isTensor() || value.toTensor().dim() != 0) return false;
  const at::Tensor& tensor = value.toTensor();
  switch (tensor.scalar_type()) {
    case at::kFloat: number = *tensor.data_ptr<float>(); return true;
    case at::kDouble: number = static_cast<float>(*tensor.data_ptr<double>()); return true;
    case at::kLong: number = static_cast<float>(*tensor.data_ptr<int64_t>()); return true;
    default: return false;
  }
}

// Both of one shape, or the second a number.
template <Place place, class F>
c10::IValue of_two(const GraphArguments& arguments, F f) {
  const at::Tensor& a = tensor_at(arguments, 0);
  Rows rows(a);
  if (!has_place<place>(rows, a) || a.dim() == 0) return {};
  if (float b = 0; as_number(*arguments[1], b)) {
    return map(rows, a, result_for<place>(a), [f, b](float x) { return f(x, b); });
  }
  if (!arguments[1]->isTensor()) return {};
  const at::Tensor& b = tensor_at(arguments, 1);
  rows.add(b);
  if (!has_place<place>(rows, a)) return {};
  return map(rows, a, b, result_for<place>(a), f);
}

struct Product {
  float operator()(float x, float y) const { return x * y; }
};
struct Quotient {
  float operator()(float x, float y) const { return x / y; }
};
struct Sum {
  float operator()(float x, float y) const { return x + y; }
};
struct Difference {
  float operator()(float x, float y) const { return x - y; }
};
struct SigmoidSlope {
  float operator()(float delta, float y) const { return delta * (1.0F - y) * y; }
};
struct TanhSlope {
  float operator()(float delta, float y) const { return delta * (1.0F - y * y); }
};

template <Place place, class F>
c10::IValue binary(const GraphArguments& arguments) {
  return of_two<place>(arguments, F());
}

// a + factor b. Computed here where the factor is 1.
template <Place place, class F>
c10::IValue weighted(const GraphArguments& arguments) {
  const c10::IValue& factor = *arguments[2];
  if (!factor.isScalar() || factor.toScalar().to<double>() != 1) return {};
  return of_two<place>(arguments, F());
}

c10::IValue negative(const GraphArguments& arguments) {
  return of_one<Place::kNew>(arguments, [](float x) { return -x; });
}

template <Place place>
c10::IValue relu(const GraphArguments& arguments) {  // NaN stays
  return of_one<place>(arguments, [](float x) { return x < 0 ? 0.0F : x; });
}

c10::IValue threshold_slope(const GraphArguments& arguments) {
  const auto threshold = arguments[2]->toScalar().to<float>();
  if (tensor_at(arguments, 1).dim() == 0) return {};
  return of_two<Place::kNew>(
      arguments, [threshold](float delta, float x) { return x <= threshold ? 0.0F : delta; });
}

using Function = void (*)(int64_t count, const float* x, float* y);

template <Place place, Function LstmKernels::*function>
c10::IValue function_of(const GraphArguments& arguments) {
  const at::Tensor& a = tensor_at(arguments, 0);
  const Rows rows(a);
  if (!has_place<place>(rows, a)) return {};
  at::Tensor out = result_for<place>(a);
  const float* x = a.data_ptr<float>();
  float* y = out.data_ptr<float>();
  for (int64_t r = 0; r < rows.count(); ++r, x += rows.stride(a), y += rows.stride(out)) {
    (lstm_kernels().*function)(rows.size(a), x, y);
  }
  return out;
}

// A matrix as BLAS has it; false: it has other strides, or no values.
bool as_matrix(const at::Tensor& a, int64_t first, Matrix& matrix) {
  const int64_t rows = a.size(first), columns = a.size(first + 1), row = a.stride(first),
                column = a.stride(first + 1);
  constexpr int64_t kMost = int64_t{1} << 30;
  if (rows == 0 || columns == 0 || std::max({rows, columns, row, column}) > kMost) return false;
  matrix.data = a.data_ptr<float>();
  if (column == 1 && row >= columns) {
    matrix.stride = row;
  } else if (row == 1 && column >= rows) {
    matrix.stride = column;
    matrix.transpose = CblasTrans;
  } else if (columns == 1 && row >= 1) {
    matrix.stride = row;
  } else {
    return false;
  }
  return true;
}

bool are_factors(const at::Tensor& a, const at::Tensor& b, int64_t axes) {
  return is_float(a) && is_float(b) && a.dim() == axes && b.dim() == axes &&
         a.size(axes - 1) == b.size(axes - 2);
}

c10::IValue product(const GraphArguments& arguments) {
  const at::Tensor &a = tensor_at(arguments, 0), &b = tensor_at(arguments, 1);
  Matrix left{}, right{};
  if (!are_factors(a, b, 2) || !as_matrix(a, 0, left) || !as_matrix(b, 0, right)) return {};
  const int64_t m = a.size(0), n = b.size(1);
  at::Tensor out = new_tensor({m, n});
  multiply(m, n, a.size(1), 1, left, right, 0, out.data_ptr<float>(), n);
  return out;
}

// A row of biases, repeated, and a product.
c10::IValue product_on_bias(const GraphArguments& arguments) {
  const at::Tensor &bias = tensor_at(arguments, 0), &a = tensor_at(arguments, 1),
                   &b = tensor_at(arguments, 2);
  for (const std::size_t i : {3, 4}) {
    if (arguments[i]->toScalar().to<double>() != 1) return {};
  }
  Matrix left{}, right{};
  if (!are_factors(a, b, 2) || !as_matrix(a, 0, left) || !as_matrix(b, 0, right)) return {};
  const int64_t m = a.size(0), n = b.size(1);
  if (!is_float(bias) || bias.dim() != 1 || bias.size(0) != n || !bias.is_contiguous()) return {};
  at::Tensor out = new_tensor({m, n});
  repeat_row(bias.data_ptr<float>(), m, n, out.data_ptr<float>());
  multiply(m, n, a.size(1), 1, left, right, 1, out.data_ptr<float>(), n);
  return out;
}

c10::IValue batch_of_products(const GraphArguments& arguments) {
  const at::Tensor &a = tensor_at(arguments, 0), &b = tensor_at(arguments, 1);
  Matrix left{}, right{};
  if (!are_factors(a, b, 3) || a.size(0) != b.size(0) || a.size(0) == 0 || !as_matrix(a, 1, left) ||
      !as_matrix(b, 1, right)) {
    return {};
  }
  const int64_t m = a.size(1), n = b.size(2);
  at::Tensor out = new_tensor({a.size(0), m, n});
  float* to = out.data_ptr<float>();
  for (int64_t i = 0; i < a.size(0); ++i, to += m * n) {
    multiply(m, n, a.size(2), 1, left, right, 0, to, n);
    left.data += a.stride(0);
    right.data += b.stride(0);
  }
  return out;
}

// A bias's gradient: the sum of a batch's rows.
c10::IValue sum_of_rows(const GraphArguments& arguments) {
  const at::Tensor& a = tensor_at(arguments, 0);
  if (!is_float(a) || a.dim() != 2 || !a.is_contiguous() || a.numel() > kSmall) return {};
  if (!arguments[1]->isIntList() || !arguments[3]->isNone()) return {};
  const auto axes = arguments[1]->toIntList();
  if (axes.size() != 1 || axes.get(0) != 0) return {};
  const int64_t width = a.size(1);
  at::Tensor out = arguments[2]->toBool() ? new_tensor({1, width}) : new_tensor({width});
  sum_rows(a.data_ptr<float>(), a.size(0), width, out.data_ptr<float>());
  return out;
}

c10::IValue transposed(const GraphArguments& arguments) {
  const at::Tensor& a = tensor_at(arguments, 0);
  if (a.dim() != 2) return {};
  return at::native::transpose(a, 0, 1);
}

c10::IValue swapped(const GraphArguments& arguments) {
  return at::native::transpose(tensor_at(arguments, 0), arguments[1]->toInt(),
                               arguments[2]->toInt());
}

// The place of an axis that may be counted from the end; -1: there is none.
int64_t axis_of(const at::Tensor& a, const c10::IValue& axis) {
  const int64_t given = axis.toInt(), place = given < 0 ? given + a.dim() : given;
  return place >= 0 && place < a.dim() ? place : -1;
}

at::Tensor part_of(const at::Tensor& a, at::IntArrayRef sizes, at::IntArrayRef strides,
                   int64_t from) {
  return at::native::as_strided_tensorimpl(a, sizes, strides, a.storage_offset() + from);
}

c10::IValue selected(const GraphArguments& arguments) {
  const at::Tensor& a = tensor_at(arguments, 0);
  const int64_t axis = axis_of(a, *arguments[1]);
  if (axis < 0) return {};
  const int64_t given = arguments[2]->toInt(), place = given < 0 ? given + a.size(axis) : given;
  if (place < 0 || place >= a.size(axis)) return {};
  auto sizes = a.sizes().vec(), strides = a.strides().vec();
  const int64_t from = place * strides[to_index(axis)];
  sizes.erase(sizes.begin() + axis);
  strides.erase(strides.begin() + axis);
  return part_of(a, sizes, strides, from);
}

c10::IValue split(const GraphArguments& arguments) {
  const at::Tensor& a = tensor_at(arguments, 0);
  const int64_t size = arguments[1]->toInt(), axis = axis_of(a, *arguments[2]);
  if (axis < 0 || size < 1 || a.size(axis) == 0 || a.size(axis) / size > kMostParts) return {};
  auto sizes = a.sizes().vec();
  c10::List<at::Tensor> parts;
  for (int64_t begin = 0; begin < a.size(axis); begin += size) {
    sizes[to_index(axis)] = std::min(size, a.size(axis) - begin);
    parts.push_back(part_of(a, sizes, a.strides(), begin * a.stride(axis)));
  }
  return parts;
}

c10::IValue viewed(const GraphArguments& arguments) {
  return at::native::view(tensor_at(arguments, 0), arguments[1]->toIntVector());
}

}  // namespace

GraphKernel graph_kernel(const std::string& name) {
  static const std::map<std::string, GraphKernel> kernels = {
      {"aten::mul.Tensor", binary<Place::kNew, Product>},
      {"aten::mul.Scalar", binary<Place::kNew, Product>},
      {"aten::mul_.Tensor", binary<Place::kFirst, Product>},
      {"aten::div.Tensor", binary<Place::kNew, Quotient>},
      {"aten::div.Scalar", binary<Place::kNew, Quotient>},
      {"aten::div_.Tensor", binary<Place::kFirst, Quotient>},
      {"aten::div_.Scalar", binary<Place::kFirst, Quotient>},
      {"aten::add.Tensor", weighted<Place::kNew, Sum>},
      {"aten::add_.Tensor", weighted<Place::kFirst, Sum>},
      {"aten::sub.Tensor", weighted<Place::kNew, Difference>},
      {"aten::sigmoid_backward", binary<Place::kNew, SigmoidSlope>},
      {"aten::tanh_backward", binary<Place::kNew, TanhSlope>},
      {"aten::threshold_backward", threshold_slope},
      {"aten::neg", negative},
      {"aten::relu", relu<Place::kNew>},
      {"aten::relu_", relu<Place::kFirst>},
      {"aten::sigmoid", function_of<Place::kNew, &LstmKernels::sigmoids>},
      {"aten::sigmoid_", function_of<Place::kFirst, &LstmKernels::sigmoids>},
      {"aten::tanh", function_of<Place::kNew, &LstmKernels::tanhs>},
      {"aten::tanh_", function_of<Place::kFirst, &LstmKernels::tanhs>},
      {"aten::mm", product},
      {"aten::addmm", product_on_bias},
      {"aten::bmm", batch_of_products},
      {"aten::sum.dim_IntList", sum_of_rows},
      {"aten::native_batch_norm", batch_norm},
      {"aten::native_batch_norm_backward", batch_norm_back},
      {"aten::max_pool2d_with_indices", max_pool},
      {"aten::t", transposed},
      {"aten::transpose.int", swapped},
      {"aten::select.int", selected},
      {"aten::unsafe_split.Tensor", split},
      {"aten::view", viewed},
      {"aten::_unsafe_view", viewed}};
  const auto found = kernels.find(name);
  return found == kernels.end() ? nullptr : found->second;
}

}  // namespace hanse
