#include "sample_gradients.hpp"

#include <algorithm>

#include "hanse/base/index.hpp"
#include "hanse/base/processor.hpp"
#include "hanse/base/products.hpp"
#include "kernels/layer_kernels.hpp"

namespace hanse {

namespace {

using ToFloat64 = void (*)(const float* from, int64_t n, double* to);

// to <- from, or to + from; the bits are the same in every family.
template <bool kAdds>
inline __attribute__((always_inline)) void convert(const float* from, int64_t n, double* to) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const auto value = static_cast<double>(from[i]);
    to[i] = kAdds ? to[i] + value : value;
  }
}

template <bool kAdds>
void plain_convert(const float* from, int64_t n, double* to) {
  convert<kAdds>(from, n, to);
}

#if defined(__x86_64__)
template <bool kAdds>
HANSE_AVX512 void wide_convert(const float* from, int64_t n, double* to) {
  convert<kAdds>(from, n, to);
}
#endif

ToFloat64 converter(bool adds) {
#if defined(__x86_64__)
  if (has_avx512()) return adds ? wide_convert<true> : wide_convert<false>;
#endif
  return adds ? plain_convert<true> : plain_convert<false>;
}

}  // namespace

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

void SampleGradients::scale_deltas(Layer& layer) const {
  const std::size_t out = to_index(layer.factors.out);
  for (std::size_t i = 0; i < scales_.size(); ++i) {
    const auto delta = std::span(layer.deltas).subspan(i * out, out);
    if (scales_[i] == 0) {
      std::ranges::fill(delta, 0.0F);
    } else {
      for (float& value : delta) value = static_cast<float>(scales_[i] * value);
    }
  }
}

// Samples that count as zero may have inputs that are no numbers.
WeightGradient SampleGradients::block_of(const Layer& layer, int64_t first) {
  WeightGradient block = layer.factors;
  block.samples = std::min(kBlock, layer.factors.samples - first);
  block.deltas = layer.deltas.data() + first * block.out;
  block.inputs += first * block.in;
  const auto scales = std::span(scales_).subspan(to_index(first), to_index(block.samples));
  if (std::ranges::find(scales, 0.0) == scales.end()) return block;
  inputs_.assign(block.inputs, block.inputs + block.samples * block.in);
  for (std::size_t i = 0; i < scales.size(); ++i) {
    if (scales[i] == 0) std::fill_n(&inputs_[i * to_index(block.in)], block.in, 0.0F);
  }
  block.inputs = inputs_.data();
  return block;
}

void SampleGradients::add_block(const WeightGradient& block, bool is_first) {
  const ToFloat64 move = converter(!is_first);
  const auto visit = [&](int64_t o, int64_t n_out, int64_t i, int64_t n_in) {
    const float* from = grow(product_, n_out * n_in);
    multiply_tile(block, o, n_out, i, n_in, 1.0F, 0.0F, product_.data(), n_in);
    double* to = sum() + block.offset + o * block.in + i;
    if (n_in == block.in) return move(from, n_out * n_in, to);
    for (int64_t r = 0; r < n_out; ++r, from += n_in, to += block.in) move(from, n_in, to);
  };
  for_each_tile(block.samples, block.out, block.in, visit);
}

void SampleGradients::add_bias(const Layer& layer) {
  const auto bias = sum_.subspan(to_index(layer.bias), to_index(layer.factors.out));
  std::ranges::fill(bias, 0.0);
  for (std::size_t first = 0; first < layer.deltas.size(); first += bias.size()) {
    for (std::size_t o = 0; o < bias.size(); ++o) {
      bias[o] += static_cast<double>(layer.deltas[first + o]);
    }
  }
}

void SampleGradients::finish() {
  for (std::size_t i = 0; i < scales_.size(); ++i) {
    if (scales_[i] == kOpen) settle(static_cast<int64_t>(i), 0);
  }
  for (Layer& layer : layers_) {
    scale_deltas(layer);
    for (int64_t first = 0; first < layer.factors.samples; first += kBlock) {
      add_block(block_of(layer, first), first == 0);
    }
    if (layer.bias >= 0) add_bias(layer);
  }
}

}  // namespace hanse
