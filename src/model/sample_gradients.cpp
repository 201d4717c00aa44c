#include "sample_gradients.hpp"

#include <algorithm>

#include <cblas.h>

#include "hanse/base/index.hpp"
#include "hanse/base/products.hpp"

namespace hanse {

void SampleGradients::start(int64_t rows, double clip, std::span<double> sum) {
  rows_ = static_cast<double>(rows);
  clip_ = clip;
  sum_ = sum;
  squares_.assign(to_index(rows), 0.0);
  scales_.assign(to_index(rows), kOpen);
  layers_.clear();
}

void SampleGradients::add_product(const WeightGradient& layer) {
  const std::span<const float> deltas(layer.deltas, to_index(layer.samples * layer.out));
  const std::span<const float> inputs(layer.inputs, to_index(layer.samples * layer.in));
  Layer noted{layer, -1, {deltas.begin(), deltas.end()}, std::vector<double>(squares_.size())};
  noted.factors.deltas = nullptr;
  for (std::size_t i = 0; i < squares_.size(); ++i) {
    const auto delta = deltas.subspan(i * to_index(layer.out), to_index(layer.out));
    const auto input = inputs.subspan(i * to_index(layer.in), to_index(layer.in));
    noted.squares[i] = inner_product(delta, delta);
    squares_[i] += noted.squares[i] * inner_product(input, input);
  }
  layers_.push_back(std::move(noted));
}

// The deltas are those of the mean loss: a sample's own are `rows` times as large.
double SampleGradients::settle(int64_t sample, double squared) {
  const std::size_t i = to_index(sample);
  return scales_[i] = rows_ * clip_scale(rows_ * rows_ * (squares_[i] + squared), clip_);
}

// Samples that count as zero may have values that are no numbers.
void SampleGradients::scale(Layer& layer) {
  const WeightGradient& factors = layer.factors;
  inputs_.resize(to_index(factors.samples * factors.in));
  for (std::size_t i = 0; i < scales_.size(); ++i) {
    const auto delta = std::span(layer.deltas).subspan(i * to_index(factors.out), to_index(factors.out));
    const auto input = std::span(inputs_).subspan(i * to_index(factors.in), to_index(factors.in));
    if (scales_[i] == 0) {
      std::ranges::fill(delta, 0.0);
      std::ranges::fill(input, 0.0);
      continue;
    }
    for (double& value : delta) value *= scales_[i];
    std::copy_n(factors.inputs + i * to_index(factors.in), input.size(), input.begin());
  }
}

void SampleGradients::finish() {
  for (std::size_t i = 0; i < scales_.size(); ++i) {
    if (scales_[i] == kOpen) settle(static_cast<int64_t>(i), 0);
  }
  for (Layer& layer : layers_) {
    scale(layer);
    const WeightGradient& factors = layer.factors;
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, static_cast<int>(factors.out),
                static_cast<int>(factors.in), static_cast<int>(factors.samples), 1.0,
                layer.deltas.data(), static_cast<int>(factors.out), inputs_.data(),
                static_cast<int>(factors.in), 0.0, &sum_[to_index(factors.offset)],
                static_cast<int>(factors.in));
    if (layer.bias < 0) continue;
    const auto bias = sum_.subspan(to_index(layer.bias), to_index(factors.out));
    std::ranges::fill(bias, 0.0);
    for (std::size_t at = 0; at < layer.deltas.size(); ++at) {
      bias[at % bias.size()] += layer.deltas[at];
    }
  }
}

}  // namespace hanse
