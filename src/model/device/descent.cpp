#include "device/descent.hpp"

#include <algorithm>
#include <vector>

#include <ATen/core/grad_mode.h>

#include "device/aligned_rows.hpp"
#include "device/download.hpp"
#include "device/kernels.hpp"
#include "device/upload.hpp"

namespace hanse {

namespace {

float* data(const at::Tensor& values) {
  return values.defined() ? values.data_ptr<float>() : nullptr;
}

}  // namespace

Descent::Descent(const Cohort::Settings& settings, const at::Tensor& rows, int64_t trained)
    : numbers_(settings.step), clip_(settings.clip), slope_(settings.slope), trained_(trained) {
  if (const int64_t moments = moments_of(numbers_.kind); moments > 0) {
    moments_ = at::zeros({moments, rows.size(0), rows.stride(0)}, rows.options());
  }
  if (settings.accumulates) sums_ = aligned_like(rows);
  if (has_slopes()) slopes_ = at::zeros({rows.size(0)}, rows.options().dtype(at::kDouble));
  if (clip_ > 0 || (has_slopes() && !sums_.defined())) {
    scales_ = at::zeros({rows.size(0)}, rows.options());
  }
}

void Descent::put_parts(std::span<const uint8_t> moves, const at::Tensor& rows) {
  const int64_t parts = std::ssize(moves) / trained_;
  moves_ = at::zeros({parts, rows.stride(0)}, rows.options().dtype(at::kByte));
  at::Tensor trained = moves_.narrow(1, 0, trained_);
  upload(trained, 0, parts, moves.data());
}

void Descent::clear(const at::Tensor& theta, at::Tensor& rows, at::Tensor& losses) {
  const StartWork work{.theta = theta.data_ptr<float>(),
                       .rows = rows.data_ptr<float>(),
                       .moments = data(moments_),
                       .sums = data(sums_),
                       .losses = losses.data_ptr<double>(),
                       .n_moments = moments_of(numbers_.kind) * rows.size(0),
                       .clients = rows.size(0),
                       .stride = rows.stride(0)};
  run(work, rows.size(1), rows.device());
}

void Descent::receive(std::span<const std::span<const float>> received, at::Tensor& rows,
                      const at::Tensor& theta) {
  received_ = theta;
  if (received.empty()) return;
  for (std::size_t i = 0; i < received.size(); ++i) {
    upload(rows, static_cast<int64_t>(i), 1, received[i].data());
  }
  received_ = aligned_like(rows);
  received_.copy_(rows);
}

void Descent::start(const Cohort::Start& start, const at::Tensor& rows) {
  const bool moved = !start.to_theta && !start.rows.empty();
  form_ = {.mu = start.mu,
           .own_anchor = start.mu > 0 && (moved || received_.dim() > 1),
           .pulls = !start.pulls.empty()};
  if (form_.own_anchor) {
    if (!anchor_.defined()) anchor_ = aligned_like(rows);
    anchor_.copy_(moved ? rows : received_);
  }
  if (form_.pulls) {
    if (!pulls_.defined()) pulls_ = aligned_like(rows);
    pulls_.zero_();
    upload(pulls_, 0, std::ssize(start.pulls) / rows.size(1), start.pulls.data());
  }
  if (!start.moments.empty()) {
    const int64_t n = std::ssize(start.moments) / moment_values();
    at::Tensor own = moments_of_clients(n);
    upload(own, 0, n, start.moments.data());
  }
}

at::Tensor Descent::moments_of_clients(int64_t n) const {
  return moments_.narrow(1, 0, n).narrow(2, 0, trained_).transpose(0, 1);
}

void Descent::take_moments(std::span<float> moments) const {
  const int64_t n = std::ssize(moments) / moment_values();
  download(moments_of_clients(n), moments.data());
}

// Cohort::Slope at the mean losses [n] of n clients.
void Descent::find_slopes(const at::Tensor& means) {
  const at::Tensor room = slope_.base - means;
  const at::Tensor beyond = at::full_like(room, slope_.beyond);
  slopes_.narrow(0, 0, means.size(0))
      .copy_(at::where(room >= slope_.least, room.reciprocal(), beyond));
}

// The gradients [n, P] of the table's first clients, 0 where their values stay.
at::Tensor Descent::moving(const StepTable& table, const at::Tensor& gradients) const {
  if (!moves_.defined()) return gradients;
  const at::Tensor moves = moves_.index_select(0, table.parts().narrow(0, 0, gradients.size(0)));
  return gradients.masked_fill(moves.narrow(1, 0, gradients.size(1)).eq(0), 0);
}

// The table's scales, times the slopes that are not in the gradients yet, times min(1, clip /
// norm).
void Descent::find_scales(const StepTable& table, const at::Tensor& gradient, int64_t clients) {
  at::Tensor scales = table.scales().narrow(0, 0, clients).to(at::kDouble);
  if (has_slopes() && !sums_.defined()) scales.mul_(slopes_.narrow(0, 0, clients));
  if (clip_ > 0) {
    const at::Tensor squares = moving(table, gradient.narrow(0, 0, clients)).square();
    const at::Tensor norm =
        at::sqrt(at::sum(squares, {1}, /*keepdim=*/false, at::kDouble)).mul_(scales);
    // An infinite norm leaves no number, as in the host's steps; a client that rests has any.
    const at::Tensor clipped = scales * at::clamp_max(clip_ / norm, 1.0) + norm * 0;
    scales = at::where(scales > 0, clipped, scales);
  }
  scales_.narrow(0, 0, clients).copy_(scales);
}

void Descent::step(const StepTable& table, const at::Tensor& means, const at::Tensor& gradient,
                   at::Tensor& rows) {
  const at::NoGradGuard no_grad;
  const int64_t clients = means.size(0), stride = rows.stride(0);
  if (has_slopes()) find_slopes(means);
  if (sums_.defined()) {
    run(AccumulateWork{.gradient = gradient.data_ptr<float>(),
                       .counts = table.counts().data_ptr<int64_t>(),
                       .slopes = has_slopes() ? slopes_.data_ptr<double>() : nullptr,
                       .sums = data(sums_),
                       .clients = clients,
                       .n = stride},
        trained_, rows.device());
  }
  const at::Tensor& against = sums_.defined() ? sums_ : gradient;
  if (scales_.defined()) find_scales(table, against, clients);
  const at::Tensor scales = scales_.defined() ? scales_ : table.scales();
  const at::Tensor& anchor = form_.own_anchor ? anchor_ : received_;
  DescentWork work{.numbers = numbers_,
                   .gradient = against.data_ptr<float>(),
                   .anchor = form_.mu > 0 ? anchor.data_ptr<float>() : nullptr,
                   .pulls = form_.pulls ? pulls_.data_ptr<float>() : nullptr,
                   .sizes = table.sizes(),
                   .scales = scales.data_ptr<float>(),
                   .first = data(moments_),
                   .second = nullptr,
                   .rows = rows.data_ptr<float>(),
                   .spent = data(sums_),
                   .clients = clients,
                   .n = stride,
                   .trained = trained_,
                   .anchor_stride = form_.own_anchor ? stride : 0,
                   .scale_stride = scales.stride(0),
                   .moves = moves_.defined() ? moves_.data_ptr<uint8_t>() : nullptr};
  if (moments_.defined() && moments_.size(0) > 1) work.second = data(moments_[1]);
  work.numbers.rule.mu = static_cast<float>(form_.mu);
  run(work, work.items(), rows.device());
}

}  // namespace hanse
