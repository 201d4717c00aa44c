#include "encoder_layer.hpp"

#include <algorithm>
#include <cmath>

#include "dropout.hpp"
#include "hanse/base/index.hpp"
#include "kernels/convolution_kernels.hpp"
#include "kernels/shares.hpp"

namespace hanse {

namespace {

// x <- relu(x), then times a mask unless it is null.
void rectify(float* x, const float* mask, int64_t size) {
  for (int64_t i = 0; i < size; ++i) x[i] = x[i] < 0.0F ? 0.0F : x[i];
  for (int64_t i = 0; mask != nullptr && i < size; ++i) x[i] *= mask[i];
}

// delta <- the gradient before rectify(): a value above 0 was not dropped, but multiplied by scale.
void rectify_back(const float* values, float scale, int64_t size, float* delta) {
  for (int64_t i = 0; i < size; ++i) delta[i] = values[i] > 0.0F ? delta[i] * scale : 0.0F;
}

void write_masked(const float* x, const float* mask, int64_t size, float* to) {
  for (int64_t i = 0; i < size; ++i) to[i] = x[i] * mask[i];
}

}  // namespace

EncoderLayer::EncoderLayer(ParameterLayout& layout, const std::string& name,
                           const SequenceSizes& sizes, bool in_bfloat16)
    : length_(sizes.length),
      d_(sizes.embedding),
      units_(sizes.units),
      heads_(sizes.heads),
      every_(sizes.every),
      narrow_(in_bfloat16),
      dropout_(sizes.dropout),
      widths_(dropped_widths(sizes)) {
  const auto add = [&](const char* weight, const char* bias, int64_t out, int64_t in, bool zeros) {
    const int64_t at = layout.add(name + weight, {out, in}, in);
    const int64_t bias_at =
        zeros ? layout.add_constant(name + bias, {out}, 0) : layout.add(name + bias, {out}, in);
    dense_.emplace_back(TokenDense::Place{at, bias_at}, out, in, in_bfloat16);
  };
  add("self_attn.in_proj_weight", "self_attn.in_proj_bias", 3 * d_, d_, true);
  add("self_attn.out_proj.weight", "self_attn.out_proj.bias", d_, d_, true);
  add("linear1.weight", "linear1.bias", units_, d_, false);
  add("linear2.weight", "linear2.bias", d_, units_, false);
  const auto add_norm = [&](const char* norm, Norm& to) {
    to.weight = layout.add_constant(name + norm + ".weight", {d_}, 1);
    to.bias = layout.add_constant(name + norm + ".bias", {d_}, 0);
  };
  add_norm("norm1", norm1_);
  add_norm("norm2", norm2_);
}

void EncoderLayer::draw(int64_t rows, RandomStream* noise) {
  trains_ = noise != nullptr;
  drops_ = trains_ && dropout_ > 0;
  if (!drops_) return;
  for (std::size_t i = 0; i < masks_.size(); ++i) {
    const int64_t size = rows * widths_[i];
    draw_mask(dropout_, *noise, {grow(masks_[i], size), to_index(size)});
  }
}

void EncoderLayer::make_rooms() {
  rooms_.resize(std::max(rooms_.size(), to_index(number_of_shares(rows_))));
  for (AlignedFloats& room : rooms_) grow(room, room_floats(length_, d_ / heads_));
}

const float* EncoderLayer::forward(const float* row, const float* x, int64_t rows,
                                   RandomStream* noise) {
  x_ = x;
  rows_ = rows;
  draw(rows, noise);
  for (TokenDense& dense : dense_) dense.load(row);
  const int64_t tokens = rows * length_, size = tokens * d_;
  grow(qkv_, 3 * size + kReadAhead);
  if (trains_) grow(shares_, tokens * heads_ * whole_lines(length_));
  for (AlignedFloats* to : {&attended_, &added_, &y_, &z_, &norm1_.normal, &norm2_.normal}) {
    grow(*to, size);
  }
  for (Norm* norm : {&norm1_, &norm2_}) grow(norm->inverses, tokens);
  grow(hidden_, tokens * units_);
  make_rooms();
  in_shares(rows, [&](int64_t share, int64_t first, int64_t end) {
    for (int64_t sample = first; sample < end; ++sample) encode(row, sample, room(share));
  });
  return z_.data();
}

AttentionHead EncoderLayer::head(int64_t sample, int64_t number) const {
  const int64_t width = d_ / heads_, pairs = (sample * heads_ + number) * length_;
  const float* q = qkv_.data() + sample * length_ * 3 * d_ + number * width;
  return {.length = length_,
          .width = width,
          .stride = 3 * d_,
          .q = q,
          .k = q + d_,
          .v = q + 2 * d_,
          .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(width))),
          .causal = every_,
          .narrow = narrow_,
          .mask = drops_ ? masks_[0].data() + pairs * length_ : nullptr,
          .shares = nullptr};
}

void EncoderLayer::normalize(const float* row, Norm& norm, int64_t sample, const float* x,
                             const AlignedFloats& mask, float* y) {
  const int64_t token = sample * length_, at = token * d_;
  kernels_->normalize({.rows = length_,
                       .width = d_,
                       .x = x,
                       .added = added_.data() + at,
                       .mask = drops_ ? mask.data() + at : nullptr,
                       .weight = row + norm.weight,
                       .bias = row + norm.bias,
                       .normal = norm.normal.data() + at,
                       .inverses = norm.inverses.data() + token,
                       .y = y});
}

void EncoderLayer::encode(const float* row, int64_t sample, float* room) {
  const int64_t at = sample * length_ * d_, wide = sample * length_ * units_;
  in_projection().multiply(x_ + at, length_, qkv_.data() + 3 * at);
  if (narrow_) kernels_->round(3 * length_ * d_, qkv_.data() + 3 * at);
  for (int64_t i = 0; i < heads_; ++i) {
    AttentionHead one = head(sample, i);
    if (trains_) one.shares = shares_.data() + (sample * heads_ + i) * length_ * one.line();
    kernels_->attend(one, attended_.data() + at + i * one.width, d_, room);
  }
  out_projection().multiply(attended_.data() + at, length_, added_.data() + at);
  normalize(row, norm1_, sample, x_ + at, masks_[1], y_.data() + at);
  float* hidden = hidden_.data() + wide;
  linear1().multiply(y_.data() + at, length_, hidden);
  rectify(hidden, drops_ ? masks_[2].data() + wide : nullptr, length_ * units_);
  linear2().multiply(hidden, length_, added_.data() + at);
  normalize(row, norm2_, sample, y_.data() + at, masks_[3], z_.data() + at);
}

int EncoderLayer::depth(const GradientTarget& target, bool below) const {
  const auto wants = [&](const Norm& norm) {
    return target.wants(norm.weight) || target.wants(norm.bias);
  };
  if (below) return kBelow;
  if (dense_[0].is_wanted(target)) return kInProjection;
  if (dense_[1].is_wanted(target)) return kOutProjection;
  if (wants(norm1_)) return kNorm1;
  if (dense_[2].is_wanted(target)) return kLinear1;
  if (dense_[3].is_wanted(target)) return kLinear2;
  return wants(norm2_) ? kNorm2 : -1;
}

const float* EncoderLayer::backward(const float* row, const float* delta,
                                    const GradientTarget& target, bool below) {
  const int down = depth(target, below);
  for (TokenDense& dense : dense_) dense.load_back(row);
  const int64_t tokens = rows_ * length_, size = tokens * d_;
  for (AlignedFloats* to :
       {&sum_delta2_, &fed_delta_, &y_delta_, &sum_delta1_, &out_delta_, &x_delta_}) {
    grow(*to, size);
  }
  grow(hidden_delta_, tokens * units_);
  grow(attended_delta_, size + kReadAhead);
  grow(qkv_delta_, 3 * size);
  make_rooms();
  in_shares(rows_, [&](int64_t share, int64_t first, int64_t end) {
    for (int64_t sample = first; sample < end; ++sample) {
      retreat(row, sample, delta, down, room(share));
    }
  });
  add_gradients(norm2_, delta, target);
  const auto add = [&](Depth place, TokenDense& dense, const float* x, const float* deltas) {
    if (down >= place) dense.add_gradient(x, deltas, tokens, target);
  };
  add(kLinear2, linear2(), hidden_.data(), drops_ ? fed_delta_.data() : sum_delta2_.data());
  add(kLinear1, linear1(), y_.data(), hidden_delta_.data());
  if (down >= kNorm1) add_gradients(norm1_, y_delta_.data(), target);
  add(kOutProjection, out_projection(), attended_.data(),
      drops_ ? out_delta_.data() : sum_delta1_.data());
  add(kInProjection, in_projection(), x_, qkv_delta_.data());
  return down == kBelow ? x_delta_.data() : nullptr;
}

void EncoderLayer::normalize_back(const float* row, const Norm& norm, int64_t sample,
                                  const float* delta, float* dz) const {
  const int64_t token = sample * length_, at = token * d_;
  kernels_->normalize_back({.rows = length_,
                            .width = d_,
                            .delta = delta + at,
                            .normal = norm.normal.data() + at,
                            .inverses = norm.inverses.data() + token,
                            .weight = row + norm.weight,
                            .dz = dz + at});
}

// From the gradient by z of a sample down to that by what is wanted.
void EncoderLayer::retreat(const float* row, int64_t sample, const float* delta, int depth,
                           float* room) {
  const int64_t size = length_ * d_, at = sample * size, wide = sample * length_ * units_;
  const auto dropped = [&](const AlignedFloats& sum, const AlignedFloats& mask, AlignedFloats& to) {
    if (!drops_) return sum.data() + at;
    write_masked(sum.data() + at, mask.data() + at, size, to.data() + at);
    return static_cast<const float*>(to.data()) + at;
  };
  if (depth < kLinear2) return;
  normalize_back(row, norm2_, sample, delta, sum_delta2_.data());
  const float* fed = dropped(sum_delta2_, masks_[3], fed_delta_);
  if (depth < kLinear1) return;
  linear2().take_back(fed, length_, hidden_delta_.data() + wide);
  rectify_back(hidden_.data() + wide, drops_ ? DropoutRule(dropout_).scale : 1.0F, length_ * units_,
               hidden_delta_.data() + wide);
  if (depth < kNorm1) return;
  std::copy_n(sum_delta2_.data() + at, size, y_delta_.data() + at);
  linear1().add_back(hidden_delta_.data() + wide, length_, y_delta_.data() + at);
  if (depth < kOutProjection) return;
  normalize_back(row, norm1_, sample, y_delta_.data(), sum_delta1_.data());
  const float* out = dropped(sum_delta1_, masks_[1], out_delta_);
  if (depth < kInProjection) return;
  out_projection().take_back(out, length_, attended_delta_.data() + at);
  attend_back(sample, room);
  if (depth < kBelow) return;
  std::copy_n(sum_delta1_.data() + at, size, x_delta_.data() + at);
  in_projection().add_back(qkv_delta_.data() + 3 * at, length_, x_delta_.data() + at);
}

void EncoderLayer::attend_back(int64_t sample, float* room) {
  const int64_t at = sample * length_ * d_;
  float* deltas = attended_delta_.data() + at;
  if (narrow_) kernels_->round(length_ * d_, deltas);
  for (int64_t i = 0; i < heads_; ++i) {
    AttentionHead one = head(sample, i);
    one.shares = shares_.data() + (sample * heads_ + i) * length_ * one.line();
    float* q = qkv_delta_.data() + 3 * at + i * one.width;
    kernels_->attend_back(
        one, {.y = deltas + i * one.width, .y_stride = d_, .q = q, .k = q + d_, .v = q + 2 * d_},
        room);
  }
}

void EncoderLayer::add_gradients(Norm& norm, const float* delta, const GradientTarget& target) {
  if (!target.wants(norm.weight) && !target.wants(norm.bias)) return;
  float* sums = grow(sums_, 2 * d_);
  kernels_->sum_columns(rows_ * length_, d_, delta, norm.normal.data(), sums, sums + d_);
  target.add(norm.weight, sums + d_, d_);
  target.add(norm.bias, sums, d_);
}

}  // namespace hanse
