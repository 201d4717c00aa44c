#include "same_convolution.hpp"

#include "kernels/layer_kernels.hpp"

namespace hanse {

namespace {

// Units that lie next to each other in memory would meet in few sets of the cache.
int64_t apart(int64_t line) { return line + 16; }

// The weights [outputs, inputs, places] of kWeightBlock outputs from o on and kWeightBlock inputs
// from v on, zeros behind the last: block [inputs, places, outputs].
void take_outputs(const float* weights, const SameConvolution::Size& size, int64_t o, int64_t v,
                  const WinogradKernels& kernels, float* block) {
  const int64_t places = size.kernel * size.kernel, row = size.inputs * places;
  const int64_t n_out = std::min(kWeightBlock, size.outputs - o);
  const int64_t n_in = std::min(kWeightBlock, size.inputs - v);
  const float* from = weights + o * row + v * places;
  if (n_out == kWeightBlock && n_in == kWeightBlock) {
    for (int64_t c = 0; c < places * kWeightBlock; c += kWeightBlock) {
      kernels.transpose(from + c, row, block + c * kWeightBlock, kWeightBlock);
    }
    return;
  }
  std::fill_n(block, places * kWeightBlock * kWeightBlock, 0.0F);
  for (int64_t i = 0; i < n_out; ++i) {
    for (int64_t c = 0; c < places * n_in; ++c) block[c * kWeightBlock + i] = from[i * row + c];
  }
}

// The weights of one output and kWeightBlock inputs: the first lines of the block [kWeightBlock,
// kWeightBlock] are [places, inputs].
void take_inputs(const float* weights, const SameConvolution::Size& size, int64_t o, int64_t v,
                 const WinogradKernels& kernels, float* block) {
  const int64_t places = size.kernel * size.kernel;
  const float* from = weights + (o * size.inputs + v) * places;
  // The kernel reads kWeightBlock places of each input, which must not end behind the weights.
  const bool near_end = o + 1 == size.outputs && v + 2 * kWeightBlock > size.inputs;
  if (v + kWeightBlock <= size.inputs && !near_end)
    return kernels.transpose(from, places, block, kWeightBlock);
  std::fill_n(block, places * kWeightBlock, 0.0F);
  for (int64_t i = 0; i < std::min(kWeightBlock, size.inputs - v); ++i) {
    for (int64_t place = 0; place < places; ++place) {
      block[place * kWeightBlock + i] = from[i * places + place];
    }
  }
}

// The pixels of an image under a square that may stand out of it.
struct Square {
  int64_t height, width, line;  // of the image, and of a pixel
  int64_t row, column, side;    // of the square

  bool inside() const {
    return row >= 0 && column >= 0 && row + side <= height && column + side <= width;
  }
  int64_t first() const { return (row * width + column) * line; }

  // Calls f(number in the square, place in the image or -1) for all pixels.
  template <class F>
  void for_each(F f) const {
    for (int64_t i = 0; i < side * side; ++i) {
      const int64_t r = row + i / side, c = column + i % side;
      f(i, r >= 0 && c >= 0 && r < height && c < width ? (r * width + c) * line : -1);
    }
  }
};

// to [side, side, values] <- the first `values` of every pixel, zeros for those outside.
void copy_square(const Square& s, const float* image, int64_t values, float* to) {
  s.for_each([&](int64_t i, int64_t at) {
    if (at >= 0) std::copy_n(image + at, values, to + i * values);
    if (at < 0) std::fill_n(to + i * values, values, 0.0F);
  });
}

// The way back for the pixels inside: image <- from here, image += from in the next.
void put_square(const Square& s, const float* from, int64_t values, float* image) {
  s.for_each([&](int64_t i, int64_t at) {
    if (at >= 0) std::copy_n(from + i * values, values, image + at);
  });
}
void add_square(const Square& s, const float* from, int64_t values, float* __restrict image) {
  s.for_each([&](int64_t i, int64_t at) {
    for (int64_t v = 0; at >= 0 && v < values; ++v) image[at + v] += from[i * values + v];
  });
}

// Where whole lines of the square can be read: in the image, or copied to `patch`.
ConstImage read_square(const Square& s, const float* image, float* patch) {
  if (s.inside()) return {image + s.first(), s.line, s.width * s.line};
  copy_square(s, image, s.line, patch);
  return {patch, s.line, s.side * s.line};
}

// The product x [count, rows] w of the panel of w that begins with `column`, as a convolution.
Convolution panel_product(const Panels& w, int64_t column, int64_t count) {
  return {
      .height = 1, .width = count, .kernel = 1, .inputs = w.rows, .outputs = w.width_at(column)};
}

}  // namespace

SameConvolution::SameConvolution(int64_t weight, const Size& size, VectorFamily family,
                                 const Bfloat16Kernels* in_bfloat16)
    : weight_(weight),
      size_(size),
      winograd_(size.kernel == 3 && size.stride == 1 && !size.of_samples && in_bfloat16 == nullptr),
      places_(size.kernel * size.kernel),
      products_(winograd_ ? kProducts : 1),
      unit_columns_(winograd_ ? (size.width + 1) / kTile : size.out_width()),
      units_((winograd_ ? (size.height + 1) / kTile : size.out_height()) * unit_columns_),
      kernels_(convolution_kernels(family)),
      winograd_kernels_(winograd_kernels(family)),
      bfloat16_(in_bfloat16) {}

// Few enough that factors and sums stay in the second cache, unless the weights fill it.
int64_t SameConvolution::chunk_size() const {
  const int64_t weights = products_ * forward_weights().size();
  return weights > (128 << 10) ? 160 : 32;
}

int64_t SameConvolution::input_line() const { return apart(whole_lines(depth())); }

int64_t SameConvolution::sum_line() const {
  return winograd_ ? apart(size_.out_line()) : size_.out_line();
}

void SameConvolution::load(const float* row, ConvolutionScratch& scratch) const {
  const Panels panels = forward_weights();
  float* to = grow(scratch.weights, products_ * panels.size());
  float* block = grow(scratch.block, places_ * kWeightBlock * kWeightBlock);
  for (int64_t o = 0; o < size_.outputs; o += kWeightBlock) {
    for (int64_t v = 0; v < size_.inputs; v += kWeightBlock) {
      take_outputs(row + weight_, size_, o, v, winograd_kernels_, block);
      for (int64_t i = 0; i < std::min(kWeightBlock, size_.inputs - v); ++i) {
        const float* from = block + i * places_ * kWeightBlock;
        if (winograd_) {
          winograd_kernels_.weight({from, kWeightBlock, 3 * kWeightBlock}, kWeightBlock,
                                   products_image(to + panels.at(v + i, o), panels.size()));
          continue;
        }
        for (int64_t place = 0; place < places_; ++place) {
          std::copy_n(from + place * kWeightBlock, kWeightBlock,
                      to + panels.at(place * size_.inputs + v + i, o));
        }
      }
    }
  }
  pack(panels, scratch);
}

void SameConvolution::load_transposed(const float* row, ConvolutionScratch& scratch) const {
  const Panels panels = transposed_weights();
  float* to = grow(scratch.weights, products_ * panels.size());
  float* block = grow(scratch.block, kWeightBlock * kWeightBlock);
  for (int64_t o = 0; o < size_.outputs; ++o) {
    for (int64_t v = 0; v < size_.inputs; v += kWeightBlock) {
      take_inputs(row + weight_, size_, o, v, winograd_kernels_, block);
      if (winograd_) {
        winograd_kernels_.weight({block, kWeightBlock, 3 * kWeightBlock}, kWeightBlock,
                                 products_image(to + panels.at(o, v), panels.size()));
        continue;
      }
      for (int64_t place = 0; place < places_; ++place) {
        for (int64_t i = 0; i < std::min(kWeightBlock, size_.inputs - v); ++i) {
          to[panels.at(o, place * size_.inputs + v + i)] = block[place * kWeightBlock + i];
        }
      }
    }
  }
  pack(panels, scratch);
}

// Calls f(image, square under the kernel, square of the output) for the units.
template <class F>
void SameConvolution::for_each_unit(int64_t first, int64_t count, F f) const {
  const int64_t step = winograd_ ? kTile : size_.stride, margin = size_.kernel / 2;
  for (int64_t unit = first; unit < first + count; ++unit) {
    const int64_t rest = unit % units_;
    const int64_t row = rest / unit_columns_ * step, column = rest % unit_columns_ * step;
    f(unit / units_,
      Square{size_.height, size_.width, size_.in_line(), row - margin, column - margin,
             winograd_ ? kPatch : size_.kernel},
      Square{size_.height, size_.width, size_.out_line(), row, column, kTile});
  }
}

float* SameConvolution::patch_of(ConvolutionScratch::Share& share) const {
  return grow(share.patch, kProducts * std::max(size_.in_line(), size_.out_line()));
}

void SameConvolution::lower(const float* x, int64_t first, int64_t count,
                            ConvolutionScratch::Share& share) const {
  const int64_t distance = input_line();
  float* to = share.inputs.data();
  float* patch = patch_of(share);
  for_each_unit(first, count, [&](int64_t image, const Square& input, const Square&) {
    const float* from = x + image * size_.in_size();
    if (winograd_) {
      winograd_kernels_.input(read_square(input, from, patch), input.line,
                              products_image(to, count * distance));
    } else {
      copy_square(input, from, size_.inputs, to);
    }
    to += distance;
  });
}

void SameConvolution::raise(int64_t first, int64_t count, float* y,
                            ConvolutionScratch::Share& share) const {
  const int64_t distance = sum_line(), line = size_.out_line();
  const float* from = share.sums.data();
  float* patch = patch_of(share);
  for_each_unit(first, count, [&](int64_t image, const Square&, const Square& output) {
    float* to = y + image * size_.out_size();
    const ConstImage sums = products_image(from, count * distance);
    if (output.inside()) {
      winograd_kernels_.output(sums, line, {to + output.first(), line, output.width * line});
    } else {
      winograd_kernels_.output(sums, line, {patch, line, kTile * line});
      put_square(output, patch, line, to);
    }
    from += distance;
  });
}

void SameConvolution::lower_delta(const float* dy, int64_t first, int64_t count,
                                  ConvolutionScratch::Share& share) const {
  const int64_t distance = sum_line();
  float* to = share.sums.data();
  float* patch = patch_of(share);
  for_each_unit(first, count, [&](int64_t image, const Square&, const Square& output) {
    winograd_kernels_.output_delta(read_square(output, dy + image * size_.out_size(), patch),
                                   output.line, products_image(to, count * distance));
    to += distance;
  });
}

void SameConvolution::raise_delta(int64_t first, int64_t count, float* dx,
                                  ConvolutionScratch::Share& share) const {
  const int64_t distance = input_line(), line = size_.in_line();
  const float* from = share.inputs_delta.data();
  float* patch = patch_of(share);
  for_each_unit(first, count, [&](int64_t image, const Square& input, const Square&) {
    float* to = dx + image * size_.in_size();
    const ConstImage delta = products_image(from, count * distance);
    if (!winograd_) {
      add_square(input, from, size_.inputs, to);
    } else if (input.inside()) {
      winograd_kernels_.input_delta(delta, line, {to + input.first(), line, input.width * line});
    } else {
      std::fill_n(patch, kProducts * line, 0.0F);
      winograd_kernels_.input_delta(delta, line, {patch, line, kPatch * line});
      add_square(input, patch, line, to);
    }
    from += distance;
  });
}

void SameConvolution::forward(const float* x, int64_t first, int64_t end, float* y,
                              ConvolutionScratch& scratch, ConvolutionScratch::Share& share) const {
  const Panels panels = forward_weights();
  const int64_t chunk = chunk_size(), distance = input_line(), sums_apart = sum_line();
  grow(share.inputs, products_ * chunk * distance + kReadAhead);
  if (winograd_) grow(share.sums, products_ * chunk * sums_apart + kReadAhead);
  for (int64_t unit = first * units_; unit < end * units_; unit += chunk) {
    const int64_t count = std::min(chunk, end * units_ - unit);
    lower(x, unit, count, share);
    if (bfloat16_ != nullptr) {
      multiply_packed(share.inputs.data(), distance, count, panels, y + unit * sums_apart,
                      sums_apart, scratch, share);
      continue;
    }
    float* sums = winograd_ ? share.sums.data() : y + unit * sums_apart;
    for (int64_t p = 0; p < products_; ++p) {
      for (int64_t o = 0; o < panels.line(); o += Panels::kWidth) {
        kernels_.convolve(panel_product(panels, o, count),
                          {share.inputs.data() + p * count * distance, distance, 0},
                          scratch.weights.data() + p * panels.size() + panels.at(0, o),
                          {sums + p * count * sums_apart + o, sums_apart, 0}, {});
      }
    }
    if (winograd_) raise(unit, count, y, share);
  }
}

void SameConvolution::clear_gradient(ConvolutionScratch::Share& share) const {
  const int64_t size = products_ * transposed_weights().size();
  std::fill_n(grow(share.gradient, size), size, 0.0F);
}

void SameConvolution::backward(const float* x, const float* dy, int64_t first, int64_t end,
                               float* dx, bool gradient_wanted, ConvolutionScratch& scratch,
                               ConvolutionScratch::Share& share) const {
  const Panels panels = transposed_weights();
  const int64_t chunk = chunk_size(), distance = input_line(), sums_apart = sum_line();
  grow(share.inputs, products_ * chunk * distance + kReadAhead);
  grow(share.inputs_delta, products_ * chunk * distance + kReadAhead);
  if (winograd_) grow(share.sums, products_ * chunk * sums_apart + kReadAhead);
  for (int64_t unit = first * units_; unit < end * units_; unit += chunk) {
    const int64_t count = std::min(chunk, end * units_ - unit);
    if (winograd_) lower_delta(dy, unit, count, share);
    if (gradient_wanted) lower(x, unit, count, share);
    const float* sums = winograd_ ? share.sums.data() : dy + unit * sums_apart;
    if (bfloat16_ != nullptr) {
      if (gradient_wanted) add_packed_gradient(sums, count, share);
      if (dx != nullptr) {
        multiply_packed(sums, sums_apart, count, panels, share.inputs_delta.data(), distance,
                        scratch, share);
      }
    }
    for (int64_t p = 0; p < products_ && bfloat16_ == nullptr; ++p) {
      const ConstImage deltas{sums + p * count * sums_apart, sums_apart, 0};
      const int64_t at = p * count * distance;
      for (int64_t v = 0; v < panels.line(); v += Panels::kWidth) {
        const Convolution product = panel_product(panels, v, count);
        const int64_t panel = p * panels.size() + panels.at(0, v);
        if (gradient_wanted) {
          kernels_.add_weight_gradient(product, deltas, {share.inputs.data() + at + v, distance, 0},
                                       share.gradient.data() + panel);
        }
        if (dx != nullptr) {
          kernels_.convolve(product, deltas, scratch.weights.data() + panel,
                            {share.inputs_delta.data() + at + v, distance, 0}, {});
        }
      }
    }
    if (dx != nullptr) raise_delta(unit, count, dx, share);
  }
}

void SameConvolution::hand_over(const GradientTarget& target, int64_t shares,
                                ConvolutionScratch& scratch) const {
  const Panels panels = transposed_weights();
  AlignedFloats& sum = scratch.shares[0].gradient;
  for (int64_t share = 1; share < shares; ++share) {
    const AlignedFloats& part = scratch.shares[static_cast<std::size_t>(share)].gradient;
    const auto size = static_cast<std::size_t>(products_ * panels.size());
    for (std::size_t i = 0; i < size; ++i) sum[i] += part[i];
  }
  const int64_t line = whole_lines(size_.inputs), size = size_.inputs * places_;
  float* block = grow(scratch.block, kWeightBlock * line + kWeightBlock * kWeightBlock);
  float* transposed = block + kWeightBlock * line;
  float* unpacked = grow(scratch.unpacked, size);
  for (int64_t o = 0; o < size_.outputs; ++o) {
    if (winograd_) {
      for (int64_t v = 0; v < line; v += Panels::kWidth) {
        winograd_kernels_.weight_delta(
            products_image<const float>(sum.data() + panels.at(o, v), panels.size()),
            panels.width_at(v), {block + v, line, 3 * line});
      }
    } else {
      for (int64_t place = 0; place < places_; ++place) {
        for (int64_t v = 0; v < size_.inputs; ++v) {
          block[place * line + v] =
              sum[static_cast<std::size_t>(panels.at(o, place * size_.inputs + v))];
        }
      }
    }
    for (int64_t v = 0; v < size_.inputs; v += kWeightBlock) {
      winograd_kernels_.transpose(block + v, line, transposed, kWeightBlock);
      for (int64_t i = 0; i < std::min(kWeightBlock, size_.inputs - v); ++i) {
        std::copy_n(transposed + i * kWeightBlock, places_, unpacked + (v + i) * places_);
      }
    }
    target.add(weight_ + o * size, unpacked, size);
  }
}

}  // namespace hanse
