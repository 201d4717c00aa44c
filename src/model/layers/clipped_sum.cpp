#include "layers/clipped_sum.hpp"

#include <algorithm>

#include "hanse/base/index.hpp"
#include "hanse/base/products.hpp"

namespace hanse {

void ClippedSum::clear() {
  weights_.assign(to_index(c_.weights()), 0.0);
  bias_.assign(to_index(c_.line()), 0.0);
}

// A line may end with values that are no output's.
double ClippedSum::squared(const AlignedFloats& weights, const AlignedFloats& bias) const {
  const std::size_t outputs = to_index(c_.outputs);
  double sum = inner_product({bias.data(), outputs}, {bias.data(), outputs});
  for (int64_t at = 0; at < c_.weights(); at += c_.line()) {
    const std::span<const float> line(&weights[to_index(at)], outputs);
    sum += inner_product(line, line);
  }
  return sum;
}

void ClippedSum::add(const AlignedFloats& weights, const AlignedFloats& bias, double scale) {
  if (scale == 0) return;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    weights_[i] += scale * static_cast<double>(weights[i]);
  }
  for (std::size_t i = 0; i < bias_.size(); ++i) bias_[i] += scale * static_cast<double>(bias[i]);
}

void ClippedSum::add(const ClippedSum& other) {
  for (std::size_t i = 0; i < weights_.size(); ++i) weights_[i] += other.weights_[i];
  for (std::size_t i = 0; i < bias_.size(); ++i) bias_[i] += other.bias_[i];
}

void ClippedSum::write(double* weights, double* bias) const {
  const int64_t places = c_.kernel * c_.kernel, line = c_.line();
  for (int64_t o = 0; o < c_.outputs; ++o) {
    for (int64_t v = 0; v < c_.inputs; ++v) {
      for (int64_t place = 0; place < places; ++place) {
        *weights++ = weights_[to_index((place * c_.inputs + v) * line + o)];
      }
    }
  }
  std::copy_n(bias_.begin(), c_.outputs, bias);
}

}  // namespace hanse
