#include "networks/graphs/graph_guards.hpp"

#include <algorithm>
#include <map>

#include <ATen/ATen.h>

#include "networks/graphs/graph_guard_parts.hpp"

namespace hanse {

namespace {

using namespace guards;

void require_size(const Arguments& arguments, std::size_t i, int64_t size) {
  if (is_given(arguments, i)) require(tensor_at(arguments, i).numel() == size);
}

void require_same_sizes(const Arguments& arguments) {
  require(tensor_at(arguments, 0).sizes() == tensor_at(arguments, 1).sizes());
}

// Losses divide by numbers that are 0 as integers, which stops the processor.
void require_floats(const Arguments& arguments) {
  for (std::size_t i = 0; i < 3; ++i) {
    require(at::isFloatingType(tensor_at(arguments, i).scalar_type()));
  }
}

// The gradient of what looks at windows of `axes` axes: gradient, samples, ..., and where the
// largest values were, at `places`.
template <int64_t axes, std::size_t places>
void require_windows(const Arguments& arguments) {
  const at::Tensor &gradient = tensor_at(arguments, 0), &samples = tensor_at(arguments, 1);
  require(gradient.dim() == samples.dim() && samples.dim() > axes);
  int64_t area = 1;
  for (int64_t i = 0; i < samples.dim(); ++i) {
    if (i < samples.dim() - axes) {
      require(gradient.size(i) == samples.size(i));
    } else {
      area *= samples.size(i);
    }
  }
  if (places == 0) return;
  require(tensor_at(arguments, places).sizes() == gradient.sizes());
  require_below(tensor_at(arguments, places), area);
}

int64_t channels_of(const at::Tensor& samples) {
  require(samples.dim() >= 2 && samples.numel() > 0);
  return samples.size(1);
}

void check_batch_norm(const Arguments& arguments) {
  const int64_t channels = channels_of(tensor_at(arguments, 0));
  for (std::size_t i = 1; i < 5; ++i) {
    if (arguments.at(i).isTensor() || arguments.at(i).isNone()) {
      require_size(arguments, i, channels);
    }
  }
  // Evaluation reads the running mean and variance; some forms have none.
  if (arguments.at(3).isBool()) return require(arguments.at(3).toBool());
  const bool training = arguments.at(5).isBool() && arguments.at(5).toBool();
  require(training || (is_given(arguments, 3) && is_given(arguments, 4)));
  // Their variance would be 0 / 0.
  if (training && tensor_at(arguments, 0).numel() == channels) {
    throw std::invalid_argument("it needs more than 1 value per channel in training");
  }
}

// gradient, samples, weight, running mean and variance, saved mean and deviation, training
void check_batch_norm_backward(const Arguments& arguments) {
  require_same_sizes(arguments);
  const int64_t channels = channels_of(tensor_at(arguments, 1));
  const bool training = arguments.at(7).toBool();
  for (std::size_t i = 2; i < 5; ++i) require_size(arguments, i, channels);
  for (const std::size_t i : {5, 6}) {
    if (training) require(is_given(arguments, i));
    if (training) require_size(arguments, i, channels);
  }
  if (!training) require(is_given(arguments, 3) && is_given(arguments, 4));
}

// gradient, samples, shape, mean, deviation, weight, bias
void check_layer_norm_backward(const Arguments& arguments) {
  require_same_sizes(arguments);
  int64_t size = 1;
  for (const int64_t extent : arguments.at(2).toIntVector()) {
    require(extent > 0);
    size *= extent;
  }
  const int64_t values = tensor_at(arguments, 1).numel();
  require(size > 0 && values % size == 0);
  for (const std::size_t i : {3, 4}) {
    require(is_given(arguments, i));
    require_size(arguments, i, values / size);
  }
  for (const std::size_t i : {5, 6}) require_size(arguments, i, size);
}

void require_groups(const at::Tensor& samples, int64_t n, int64_t channels, int64_t pixels,
                    int64_t groups) {
  require(groups > 0 && n > 0 && channels > 0 && pixels > 0 && channels % groups == 0);
  require(samples.dim() >= 2 && samples.size(0) == n && samples.size(1) == channels);
  require(samples.numel() / n / channels == pixels);
}

// samples, weight, bias, n, channels, pixels, groups, eps
void check_group_norm(const Arguments& arguments) {
  const int64_t channels = arguments.at(4).toInt();
  require_groups(tensor_at(arguments, 0), arguments.at(3).toInt(), channels,
                 arguments.at(5).toInt(), arguments.at(6).toInt());
  for (const std::size_t i : {1, 2}) require_size(arguments, i, channels);
}

// gradient, samples, mean, deviation, weight, n, channels, pixels, groups
void check_group_norm_backward(const Arguments& arguments) {
  require_same_sizes(arguments);
  const int64_t n = arguments.at(5).toInt(), channels = arguments.at(6).toInt();
  const int64_t groups = arguments.at(8).toInt();
  require_groups(tensor_at(arguments, 1), n, channels, arguments.at(7).toInt(), groups);
  for (const std::size_t i : {2, 3}) {
    require(is_given(arguments, i));
    require_size(arguments, i, n * groups);
  }
  require_size(arguments, 4, channels);
}

int64_t of_axis(const std::vector<int64_t>& values, std::size_t axis) {
  require(!values.empty());
  return values.size() == 1 ? values[0] : values.at(axis);
}

// gradient, samples, weight, bias sizes, stride, padding, dilation, transposed, output padding,
// groups
void check_convolution_backward(const Arguments& arguments) {
  const at::Tensor &gradient = tensor_at(arguments, 0), &samples = tensor_at(arguments, 1),
                   &weight = tensor_at(arguments, 2);
  const auto stride = arguments.at(4).toIntVector(), padding = arguments.at(5).toIntVector(),
             dilation = arguments.at(6).toIntVector(), more = arguments.at(8).toIntVector();
  const bool transposed = arguments.at(7).toBool();
  const int64_t groups = arguments.at(9).toInt();
  require(groups > 0 && samples.dim() >= 3 && gradient.dim() == samples.dim() &&
          weight.dim() == samples.dim() && gradient.size(0) == samples.size(0));
  require(gradient.size(1) == (transposed ? weight.size(1) * groups : weight.size(0)));
  require(samples.size(1) == (transposed ? weight.size(0) : weight.size(1) * groups));
  for (int64_t i = 2; i < samples.dim(); ++i) {
    const std::size_t axis = to_index(i - 2);
    const int64_t s = of_axis(stride, axis), p = of_axis(padding, axis),
                  d = of_axis(dilation, axis);
    require(s > 0 && p >= 0 && d > 0);
    const int64_t reach = d * (weight.size(i) - 1);
    const int64_t out = transposed
                            ? (samples.size(i) - 1) * s - 2 * p + reach + of_axis(more, axis) + 1
                            : (samples.size(i) + 2 * p - reach - 1) / s + 1;
    require(gradient.size(i) == out);
  }
}

// gradient, places, words, padding word, by frequency
void check_embedding_backward(const Arguments& arguments) {
  require_below(tensor_at(arguments, 1), arguments.at(2).toInt());
}

// direction, length, axis
void check_weight_norm(const Arguments& arguments) {
  const at::Tensor& direction = tensor_at(arguments, 0);
  const int64_t axis = arguments.back().toInt();
  require(direction.numel() > 0 && direction.dim() > 0);
  require(axis == 0 || axis == direction.dim() - 1);
  for (std::size_t i = 1; i + 1 < arguments.size(); ++i) {
    require(tensor_at(arguments, i).scalar_type() == direction.scalar_type());
  }
  require_size(arguments, arguments.size() - 2, direction.size(axis));
}

// gradient, direction, length, norms, axis
void check_weight_norm_backward(const Arguments& arguments) {
  require_same_sizes(arguments);
  check_weight_norm(arguments);
  require_size(arguments, 2, tensor_at(arguments, 3).numel());
}

// tensor, shape with -1 for a side as it is
void check_expand(const Arguments& arguments) {
  const at::Tensor& tensor = tensor_at(arguments, 0);
  std::vector<int64_t> shape = arguments.at(1).toIntVector();
  const int64_t more = std::ssize(shape) - tensor.dim();
  require(more >= 0);
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    int64_t& side = shape[to_index(more + i)];
    if (side == -1) side = tensor.size(i);
  }
  require_values(shape);
}

template <std::size_t place>
void check_strided(const Arguments& arguments) {
  require_values(arguments.at(place).toIntVector());
}

void check_unbind(const Arguments& arguments) { require(side_of(arguments, 1) <= kMostParts); }

// tensor, length of a part (or of each), axis
void check_split(const Arguments& arguments) {
  if (!arguments.at(1).isInt() || arguments.at(1).toInt() <= 0) return;
  require(side_of(arguments, 2) / static_cast<double>(arguments.at(1).toInt()) <= kMostParts);
}

// tensor, parts, axis
void check_chunk(const Arguments& arguments) {
  require(std::min(side_of(arguments, 2), static_cast<double>(arguments.at(1).toInt())) <=
          kMostParts);
}

// samples or a gradient, output size, in backward the input's, ..., scales that end the arguments:
// kernels look for the source of a value by the scale.
void check_scales(const Arguments& arguments) {
  if (!arguments.at(1).isIntList()) return;  // the sizes follow the scales
  const auto out = arguments.at(1).toIntVector();
  const auto in = arguments.at(2).isIntList() ? arguments.at(2).toIntVector()
                                              : tensor_at(arguments, 0).sizes().vec();
  require(in.size() == out.size() + 2 && arguments.size() > out.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const c10::IValue& scale = arguments[arguments.size() - out.size() + i];
    if (!scale.isDouble() || !(scale.toDouble() > 0)) continue;
    const double widest = static_cast<double>(in[i + 2]) * scale.toDouble() * (1 + 1e-6);
    require(static_cast<double>(out[i]) <= widest);
  }
}

// samples, factor, whose square is an integer
void check_pixels(const Arguments& arguments) {
  const int64_t factor = arguments.at(1).toInt();
  require(factor > 0 && factor <= 1 << 15);
}

// The processor stops at the least integer by -1.
void check_division(const Arguments& arguments) {
  const auto is_integral = [](const c10::IValue& value) {
    return value.isTensor() ? at::isIntegralType(value.toTensor().scalar_type(), true)
                            : !value.isDouble();
  };
  if (!is_integral(arguments.at(0)) || !is_integral(arguments.at(1))) return;
  const c10::IValue& divisor = arguments.at(1);
  require(divisor.isTensor() ? !divisor.toTensor().eq(-1).any().item<bool>()
                             : divisor.toInt() != -1);
}

const std::map<std::string, GraphGuard>& guards_of_operators() {
  static const std::map<std::string, GraphGuard> table = {
      {"aten::_softmax_backward_data", require_same_sizes},
      {"aten::_log_softmax_backward_data", require_same_sizes},
      {"aten::prelu_backward", require_same_sizes},
      {"aten::log_sigmoid_backward", require_same_sizes},
      {"aten::max_pool2d_with_indices_backward", require_windows<2, 7>},
      {"aten::max_pool3d_with_indices_backward", require_windows<3, 7>},
      {"aten::adaptive_max_pool2d_backward", require_windows<2, 2>},
      {"aten::avg_pool2d_backward", require_windows<2, 0>},
      {"aten::avg_pool3d_backward", require_windows<3, 0>},
      {"aten::_adaptive_avg_pool2d_backward", require_windows<2, 0>},
      {"aten::_adaptive_avg_pool3d_backward", require_windows<3, 0>},
      {"aten::reflection_pad1d_backward", require_windows<1, 0>},
      {"aten::reflection_pad2d_backward", require_windows<2, 0>},
      {"aten::replication_pad1d_backward", require_windows<1, 0>},
      {"aten::replication_pad2d_backward", require_windows<2, 0>},
      {"aten::reflection_pad3d_backward", require_windows<3, 0>},
      {"aten::replication_pad3d_backward", require_windows<3, 0>},
      {"aten::unfold", check_unfold},
      {"aten::unfold_backward", check_unfold_backward},
      {"aten::_cdist_backward", check_distance_backward},
      {"aten::grid_sampler_2d", check_grid_2d},
      {"aten::grid_sampler_2d_backward", check_grid_2d_backward},
      {"aten::grid_sampler_3d", check_grid_3d},
      {"aten::grid_sampler_3d_backward", check_grid_3d_backward},
      {"aten::affine_grid_generator", check_affine_grid},
      {"aten::searchsorted", check_search},
      {"aten::native_batch_norm", check_batch_norm},
      {"aten::_native_batch_norm_legit", check_batch_norm},
      {"aten::_native_batch_norm_legit_functional", check_batch_norm},
      {"aten::_native_batch_norm_legit_no_training", check_batch_norm},
      {"aten::native_batch_norm_backward", check_batch_norm_backward},
      {"aten::native_layer_norm_backward", check_layer_norm_backward},
      {"aten::native_group_norm", check_group_norm},
      {"aten::native_group_norm_backward", check_group_norm_backward},
      {"aten::convolution_backward", check_convolution_backward},
      {"aten::embedding_dense_backward", check_embedding_backward},
      {"aten::_weight_norm_interface", check_weight_norm},
      {"aten::_weight_norm_interface_backward", check_weight_norm_backward},
      {"aten::pixel_shuffle", check_pixels},
      {"aten::pixel_unshuffle", check_pixels},
      {"aten::expand", check_expand},
      {"aten::empty_strided", check_strided<0>},
      {"aten::new_empty_strided", check_strided<1>},
      {"aten::unbind", check_unbind},
      {"aten::split", check_split},
      {"aten::unsafe_split", check_split},
      {"aten::chunk", check_chunk},
      {"aten::unsafe_chunk", check_chunk},
      {"aten::floor_divide", check_division},
      {"aten::floor_divide_", check_division},
      {"aten::remainder", check_division},
      {"aten::remainder_", check_division},
      {"aten::fmod", check_division},
      {"aten::fmod_", check_division},
      {"aten::div", check_division},
      {"aten::div_", check_division}};
  return table;
}

}  // namespace

GraphGuard graph_guard(const std::string& op) {
  if (op.ends_with("_loss_backward") && op != "aten::nll_loss_backward") return require_floats;
  if (op.starts_with("aten::upsample_") || op.starts_with("aten::_upsample_")) return check_scales;
  const auto found = guards_of_operators().find(op);
  return found == guards_of_operators().end() ? nullptr : found->second;
}

}  // namespace hanse
