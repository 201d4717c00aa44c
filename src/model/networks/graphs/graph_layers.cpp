#include "networks/graphs/graph_layers.hpp"

#include <array>
#include <cmath>

#include <ATen/ATen.h>

namespace hanse {

namespace {

// Values for which LibTorch's loops, which use wider vectors, are not worth their call.
constexpr int64_t kFewValues = 1 << 15;

bool is_plain(const at::Tensor& tensor, int64_t most = kFewValues) {
  return tensor.scalar_type() == at::kFloat && tensor.layout() == at::kStrided &&
         tensor.is_contiguous() && tensor.numel() > 0 && tensor.numel() <= most;
}

c10::IValue results(std::vector<c10::IValue> tensors) {
  return c10::ivalue::Tuple::create(std::move(tensors));
}

// Samples [n, channels, ...].
struct Planes {
  int64_t n, channels, size;
  explicit Planes(const at::Tensor& samples)
      : n(samples.size(0)), channels(samples.size(1)), size(samples.numel() / n / channels) {}
  int64_t values() const { return n * size; }  // of a channel

  // f(where values of the channel begin, their number)
  template <class F>
  void for_each(int64_t channel, F f) const {
    for (int64_t i = 0; i < n; ++i) f((i * channels + channel) * size, size);
  }
};

// The sum of f(i) in several doubles, whose order is fixed.
template <class F>
double sum_of(int64_t size, F f) {
  constexpr int64_t kLanes = 8;
  std::array<double, kLanes> sums{};
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (int64_t k = 0; k < kLanes; ++k) sums[static_cast<std::size_t>(k)] += f(i + k);
  }
  double sum = 0;
  for (; i < size; ++i) sum += f(i);
  for (const double lane : sums) sum += lane;
  return sum;
}

// A value for each channel, or none.
class PerChannel {
 public:
  PerChannel(const c10::IValue& given, int64_t channels) {
    if (given.isNone() || !given.toTensor().defined()) return;
    const at::Tensor& tensor = given.toTensor();
    good_ = is_plain(tensor) && tensor.numel() == channels;
    if (good_) values_ = tensor.data_ptr<float>();
  }
  bool are_good() const { return good_; }
  bool are_given() const { return values_ != nullptr; }
  float* data() const { return values_; }
  double at(int64_t channel, double otherwise) const {
    return values_ != nullptr ? static_cast<double>(values_[channel]) : otherwise;
  }

 private:
  bool good_ = true;
  float* values_ = nullptr;
};

}  // namespace

// samples, weight, bias, running mean and variance, training, momentum, eps
c10::IValue batch_norm(const GraphArguments& arguments) {
  const at::Tensor& samples = arguments[0]->toTensor();
  if (!arguments[5]->toBool() || samples.dim() < 2 || !is_plain(samples)) return {};
  const Planes planes(samples);
  const auto per_channel = [&](std::size_t i) {
    return PerChannel(*arguments[i], planes.channels);
  };
  const PerChannel weight = per_channel(1), bias = per_channel(2), mean = per_channel(3),
                   variance = per_channel(4);
  for (const PerChannel& one : {weight, bias, mean, variance}) {
    if (!one.are_good()) return {};
  }
  if (planes.values() == 1) return {};  // which the operator's guard refuses
  const double momentum = arguments[6]->toDouble(), eps = arguments[7]->toDouble();
  const auto count = static_cast<double>(planes.values());
  at::Tensor out = new_tensor(samples.sizes()), means = new_tensor({planes.channels}),
             scales = new_tensor({planes.channels});
  const float* const x = samples.data_ptr<float>();
  float* const y = out.data_ptr<float>();
  for (int64_t c = 0; c < planes.channels; ++c) {
    double sum = 0, squares = 0;
    planes.for_each(c, [&](int64_t from, int64_t size) {
      sum += sum_of(size, [x, from](int64_t i) { return static_cast<double>(x[from + i]); });
    });
    const double m = sum / count;
    planes.for_each(c, [&](int64_t from, int64_t size) {
      squares += sum_of(size, [x, from, m](int64_t i) {
        const double d = static_cast<double>(x[from + i]) - m;
        return d * d;
      });
    });
    const double scale = 1 / std::sqrt(squares / count + eps);
    const auto factor = static_cast<float>(scale * weight.at(c, 1));
    const auto shift = static_cast<float>(bias.at(c, 0) - m * static_cast<double>(factor));
    planes.for_each(c, [&](int64_t from, int64_t size) {
      for (int64_t i = from; i < from + size; ++i) y[i] = x[i] * factor + shift;
    });
    means.data_ptr<float>()[c] = static_cast<float>(m);
    scales.data_ptr<float>()[c] = static_cast<float>(scale);
    const auto move = [&](const PerChannel& running, double to) {
      if (!running.are_given()) return;
      running.data()[c] = static_cast<float>(momentum * to + (1 - momentum) * running.at(c, 0));
    };
    move(mean, m);
    move(variance, squares / (count - 1));
  }
  return results({out, means, scales});
}

// gradient, samples, weight, running mean and variance, saved mean and deviation, training, eps,
// which are wanted
c10::IValue batch_norm_back(const GraphArguments& arguments) {
  const at::Tensor &delta = arguments[0]->toTensor(), &samples = arguments[1]->toTensor();
  if (!arguments[7]->toBool() || samples.dim() < 2 || !is_plain(samples) || !is_plain(delta) ||
      delta.sizes() != samples.sizes() || !arguments[9]->isBoolList()) {
    return {};
  }
  const Planes planes(samples);
  const auto wanted = arguments[9]->toBoolList();
  const auto per_channel = [&](std::size_t i) {
    return PerChannel(*arguments[i], planes.channels);
  };
  const PerChannel weight = per_channel(2), mean = per_channel(5), scale = per_channel(6);
  if (wanted.size() != 3 || !weight.are_good() || !mean.are_given() || !scale.are_given()) {
    return {};
  }
  const auto count = static_cast<double>(planes.values());
  at::Tensor back, weights, biases;
  if (wanted.get(0)) back = new_tensor(samples.sizes());
  if (wanted.get(1)) weights = new_tensor({planes.channels});
  if (wanted.get(2)) biases = new_tensor({planes.channels});
  const float *const x = samples.data_ptr<float>(), *const d = delta.data_ptr<float>();
  float* const dx = back.defined() ? back.data_ptr<float>() : nullptr;
  for (int64_t c = 0; c < planes.channels; ++c) {
    const double m = mean.at(c, 0), s = scale.at(c, 1);
    double sum = 0, product = 0;
    planes.for_each(c, [&](int64_t from, int64_t size) {
      sum += sum_of(size, [d, from](int64_t i) { return static_cast<double>(d[from + i]); });
      product += sum_of(size, [=](int64_t i) {
        return (static_cast<double>(x[from + i]) - m) * static_cast<double>(d[from + i]);
      });
    });
    if (weights.defined()) weights.data_ptr<float>()[c] = static_cast<float>(product * s);
    if (biases.defined()) biases.data_ptr<float>()[c] = static_cast<float>(sum);
    if (dx == nullptr) continue;
    const auto slope = static_cast<float>(product * s * s / count),
               level = static_cast<float>(sum / count), center = static_cast<float>(m),
               factor = static_cast<float>(s * weight.at(c, 1));
    planes.for_each(c, [&](int64_t from, int64_t size) {
      for (int64_t i = from; i < from + size; ++i) {
        dx[i] = (d[i] - level - (x[i] - center) * slope) * factor;
      }
    });
  }
  return results({back, weights, biases});
}

namespace {

// A list's number for each of two axes; 0: it has another length.
std::array<int64_t, 2> pair_of(const c10::IValue& list, int64_t otherwise) {
  if (!list.isIntList()) return {0, 0};
  const auto values = list.toIntVector();
  if (values.empty()) return {otherwise, otherwise};
  if (values.size() > 2) return {0, 0};
  return {values.front(), values.back()};
}

}  // namespace

// samples, window, stride, padding, dilation, ceil
c10::IValue max_pool(const GraphArguments& arguments) {
  const at::Tensor& samples = arguments[0]->toTensor();
  if (samples.dim() != 4 || !is_plain(samples, 8 * kFewValues) || arguments[5]->toBool()) return {};
  const auto [height, width] = pair_of(*arguments[1], 0);
  const auto [down, right] = pair_of(*arguments[2], 0);
  const auto padding = pair_of(*arguments[3], 0), dilation = pair_of(*arguments[4], 1);
  const int64_t rows = samples.size(2), columns = samples.size(3);
  if (height < 1 || width < 1 || down < 1 || right < 1 || height > rows || width > columns ||
      !arguments[3]->isIntList() || padding != std::array<int64_t, 2>{0, 0} ||
      dilation != std::array<int64_t, 2>{1, 1}) {
    return {};
  }
  const int64_t out_rows = (rows - height) / down + 1, out_columns = (columns - width) / right + 1;
  const int64_t planes = samples.size(0) * samples.size(1);
  const std::array<int64_t, 4> sizes = {samples.size(0), samples.size(1), out_rows, out_columns};
  at::Tensor largest = new_tensor(sizes), places = new_tensor(sizes, at::kLong);
  const float* x = samples.data_ptr<float>();
  float* out = largest.data_ptr<float>();
  int64_t* where = places.data_ptr<int64_t>();
  for (int64_t p = 0; p < planes; ++p, x += rows * columns) {
    for (int64_t r = 0; r < out_rows; ++r) {
      for (int64_t c = 0; c < out_columns; ++c) {
        const int64_t first = r * down * columns + c * right;
        float most = x[first];
        int64_t place = first;
        for (int64_t i = 0; i < height; ++i) {
          for (int64_t j = 0; j < width; ++j) {
            const int64_t at = first + i * columns + j;
            const bool is_more = x[at] > most || std::isnan(x[at]);
            most = is_more ? x[at] : most;
            place = is_more ? at : place;
          }
        }
        *out++ = most;
        *where++ = place;
      }
    }
  }
  return results({largest, places});
}

}  // namespace hanse
