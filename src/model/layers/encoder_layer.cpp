#include "encoder_layer.hpp"

#include <algorithm>
#include <cmath>

#include "dropout.hpp"
#include "hanse/base/index.hpp"
#include "kernels/convolution_kernels.hpp"
#include "kernels/shares.hpp"
#include "layers/group_norm.hpp"

namespace hanse {

namespace {

// x <- relu(x), then times a mask unless it is null.
void rectify(float* x, const float* mask, int64_t size) {
  for (int64_t i = 0; i < size; ++i) x[i] = x[i] < 0.0F ? 0.0F : x[i];
  if (mask != nullptr) apply_mask(x, mask, size, x);
}

}  // namespace

EncoderLayer::EncoderLayer(ParameterLayout& layout, const std::string& name,
                           const SequenceSizes& sizes, bool in_bfloat16)
    : sizes_(sizes), narrow_(in_bfloat16), widths_(dropped_widths(sizes)) {
  const auto add = [&](const char* weight, const char* bias, int64_t out, int64_t in, bool zeros) {
    const int64_t at = layout.add(name + weight, {out, in}, in);
    const int64_t bias_at =
        zeros ? layout.add_constant(name + bias, {out}, 0) : layout.add(name + bias, {out}, in);
    dense_.emplace_back(TokenDense::Place{at, bias_at}, out, in, in_bfloat16);
  };
  add("self_attn.in_proj_weight", "self_attn.in_proj_bias", 3 * d(), d(), true);
  add("self_attn.out_proj.weight", "self_attn.out_proj.bias", d(), d(), true);
  add("linear1.weight", "linear1.bias", sizes_.units, d(), false);
  add("linear2.weight", "linear2.bias", d(), sizes_.units, false);
  const auto add_norm = [&](const char* norm, Norm& to) {
    to.weight = layout.add_constant(name + norm + ".weight", {d()}, 1);
    to.bias = layout.add_constant(name + norm + ".bias", {d()}, 0);
  };
  add_norm("norm1", norm1_);
  add_norm("norm2", norm2_);
}

void EncoderLayer::draw(int64_t rows, RandomStream* noise) {
  trains_ = noise != nullptr;
  drops_ = trains_ && sizes_.dropout > 0;
  if (!drops_) return;
  for (std::size_t i = 0; i < masks_.size(); ++i) {
    const int64_t size = rows * widths_[i];
    draw_mask(sizes_.dropout, *noise, {grow(masks_[i], size), to_index(size)});
  }
}

void EncoderLayer::make_rooms() {
  rooms_.resize(std::max(rooms_.size(), to_index(number_of_shares(rows_))));
  for (AlignedFloats& room : rooms_) grow(room, room_floats(length(), d() / sizes_.heads));
}

const float* EncoderLayer::forward(const float* row, const float* x, int64_t rows,
                                   RandomStream* noise) {
  x_ = x;
  rows_ = rows;
  draw(rows, noise);
  for (TokenDense& dense : dense_) dense.load(row);
  const int64_t tokens = rows * length(), size = tokens * d();
  grow(values_.qkv, 3 * size + kReadAhead);
  if (trains_) grow(values_.shares, tokens * sizes_.heads * whole_lines(length()));
  for (AlignedFloats* to : {&values_.attended, &values_.added, &values_.y, &values_.z,
                            &norm1_.normal, &norm2_.normal}) {
    grow(*to, size);
  }
  for (Norm* norm : {&norm1_, &norm2_}) grow(norm->inverses, tokens);
  grow(values_.hidden, tokens * sizes_.units);
  make_rooms();
  in_shares(rows, [&](int64_t share, int64_t first, int64_t end) {
    for (int64_t sample = first; sample < end; ++sample) encode(row, sample, room(share));
  });
  return values_.z.data();
}

AttentionHead EncoderLayer::head(int64_t sample, int64_t number) const {
  const int64_t width = d() / sizes_.heads, pairs = (sample * sizes_.heads + number) * length();
  const float* q = values_.qkv.data() + sample * length() * 3 * d() + number * width;
  return {.length = length(),
          .width = width,
          .stride = 3 * d(),
          .q = q,
          .k = q + d(),
          .v = q + 2 * d(),
          .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(width))),
          .causal = sizes_.every,
          .narrow = narrow_,
          .mask = drops_ ? masks_[0].data() + pairs * length() : nullptr,
          .shares = nullptr};
}

void EncoderLayer::normalize(const float* row, Norm& norm, int64_t sample, const float* x,
                             const AlignedFloats& mask, float* y) {
  const int64_t token = sample * length(), at = token * d();
  kernels_->normalize({.rows = length(),
                       .width = d(),
                       .x = x,
                       .added = values_.added.data() + at,
                       .mask = drops_ ? mask.data() + at : nullptr,
                       .weight = row + norm.weight,
                       .bias = row + norm.bias,
                       .epsilon = static_cast<float>(kNormEpsilon),
                       .normal = norm.normal.data() + at,
                       .inverses = norm.inverses.data() + token,
                       .y = y});
}

void EncoderLayer::encode(const float* row, int64_t sample, float* room) {
  const int64_t at = sample * length() * d(), wide = sample * length() * sizes_.units;
  in_projection().multiply(x_ + at, length(), values_.qkv.data() + 3 * at);
  if (narrow_)
    kernels_->round(values_.qkv.data() + 3 * at, 3 * length() * d(), values_.qkv.data() + 3 * at);
  for (int64_t i = 0; i < sizes_.heads; ++i) {
    AttentionHead one = head(sample, i);
    if (trains_)
      one.shares = values_.shares.data() + (sample * sizes_.heads + i) * length() * one.line();
    kernels_->attend(one, values_.attended.data() + at + i * one.width, d(), room);
  }
  out_projection().multiply(values_.attended.data() + at, length(), values_.added.data() + at);
  normalize(row, norm1_, sample, x_ + at, masks_[1], values_.y.data() + at);
  float* hidden = values_.hidden.data() + wide;
  linear1().multiply(values_.y.data() + at, length(), hidden);
  rectify(hidden, drops_ ? masks_[2].data() + wide : nullptr, length() * sizes_.units);
  linear2().multiply(hidden, length(), values_.added.data() + at);
  normalize(row, norm2_, sample, values_.y.data() + at, masks_[3], values_.z.data() + at);
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
  const int64_t tokens = rows_ * length(), size = tokens * d();
  for (AlignedFloats* to :
       {&deltas_.sum2, &deltas_.fed, &deltas_.y, &deltas_.sum1, &deltas_.out, &deltas_.x}) {
    grow(*to, size);
  }
  grow(deltas_.hidden, tokens * sizes_.units);
  grow(deltas_.attended, size + kReadAhead);
  grow(deltas_.qkv, 3 * size);
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
  add(kLinear2, linear2(), values_.hidden.data(),
      drops_ ? deltas_.fed.data() : deltas_.sum2.data());
  add(kLinear1, linear1(), values_.y.data(), deltas_.hidden.data());
  if (down >= kNorm1) add_gradients(norm1_, deltas_.y.data(), target);
  add(kOutProjection, out_projection(), values_.attended.data(),
      drops_ ? deltas_.out.data() : deltas_.sum1.data());
  add(kInProjection, in_projection(), x_, deltas_.qkv.data());
  return down == kBelow ? deltas_.x.data() : nullptr;
}

void EncoderLayer::normalize_back(const float* row, const Norm& norm, int64_t sample,
                                  const float* delta, float* dz) const {
  const int64_t token = sample * length(), at = token * d();
  kernels_->normalize_back({.rows = length(),
                            .width = d(),
                            .delta = delta + at,
                            .normal = norm.normal.data() + at,
                            .inverses = norm.inverses.data() + token,
                            .weight = row + norm.weight,
                            .dz = dz + at});
}

// From the gradient by z of a sample down to that by what is wanted.
void EncoderLayer::retreat(const float* row, int64_t sample, const float* delta, int depth,
                           float* room) {
  const int64_t size = length() * d(), at = sample * size, wide = sample * length() * sizes_.units;
  const auto dropped = [&](const AlignedFloats& sum, const AlignedFloats& mask, AlignedFloats& to) {
    if (!drops_) return sum.data() + at;
    apply_mask(sum.data() + at, mask.data() + at, size, to.data() + at);
    return static_cast<const float*>(to.data()) + at;
  };
  if (depth < kLinear2) return;
  normalize_back(row, norm2_, sample, delta, deltas_.sum2.data());
  const float* fed = dropped(deltas_.sum2, masks_[3], deltas_.fed);
  if (depth < kLinear1) return;
  linear2().take_back(fed, length(), deltas_.hidden.data() + wide);
  activation_backward(values_.hidden.data() + wide, length() * sizes_.units,
                      drops_ ? DropoutRule(sizes_.dropout).scale : 1.0F,
                      deltas_.hidden.data() + wide);
  if (depth < kNorm1) return;
  std::copy_n(deltas_.sum2.data() + at, size, deltas_.y.data() + at);
  linear1().add_back(deltas_.hidden.data() + wide, length(), deltas_.y.data() + at);
  if (depth < kOutProjection) return;
  normalize_back(row, norm1_, sample, deltas_.y.data(), deltas_.sum1.data());
  const float* out = dropped(deltas_.sum1, masks_[1], deltas_.out);
  if (depth < kInProjection) return;
  out_projection().take_back(out, length(), deltas_.attended.data() + at);
  attend_back(sample, room);
  if (depth < kBelow) return;
  std::copy_n(deltas_.sum1.data() + at, size, deltas_.x.data() + at);
  in_projection().add_back(deltas_.qkv.data() + 3 * at, length(), deltas_.x.data() + at);
}

void EncoderLayer::attend_back(int64_t sample, float* room) {
  const int64_t at = sample * length() * d();
  float* deltas = deltas_.attended.data() + at;
  if (narrow_) kernels_->round(deltas, length() * d(), deltas);
  for (int64_t i = 0; i < sizes_.heads; ++i) {
    AttentionHead one = head(sample, i);
    one.shares = values_.shares.data() + (sample * sizes_.heads + i) * length() * one.line();
    float* q = deltas_.qkv.data() + 3 * at + i * one.width;
    kernels_->attend_back(
        one, {.y = deltas + i * one.width, .y_stride = d(), .q = q, .k = q + d(), .v = q + 2 * d()},
        room);
  }
}

void EncoderLayer::add_gradients(Norm& norm, const float* delta, const GradientTarget& target) {
  if (!target.wants(norm.weight) && !target.wants(norm.bias)) return;
  float* sums = grow(sums_, 2 * d());
  kernels_->sum_columns(rows_ * length(), d(), delta, norm.normal.data(), sums, sums + d());
  target.add(norm.weight, sums + d(), d());
  target.add(norm.bias, sums, d());
}

}  // namespace hanse
