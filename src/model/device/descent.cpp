#include "device/descent.hpp"

#include <algorithm>

#include "device/aligned_rows.hpp"
#include "device/kernels.hpp"
#include "device/upload.hpp"
#include "hanse/model/sgd_rule.hpp"

namespace hanse {

Descent::Descent(const Cohort::Settings& settings, const at::Tensor& rows, int64_t trained)
    : weight_decay_(settings.weight_decay),
      momentum_(settings.momentum),
      clip_(settings.clip),
      trained_(trained),
      nesterov_(settings.nesterov) {
  if (momentum_ > 0) velocity_ = aligned_like(rows);
}

void Descent::clear(const at::Tensor& theta, at::Tensor& rows, at::Tensor& losses) {
  const StartWork work{.theta = theta.data_ptr<float>(),
                       .rows = rows.data_ptr<float>(),
                       .velocity = velocity_.defined() ? velocity_.data_ptr<float>() : nullptr,
                       .losses = losses.data_ptr<double>(),
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
}

void Descent::step(at::Tensor& gradient, const at::Tensor& rates, at::Tensor& rows,
                   int64_t clients) const {
  if (clip_ > 0) {
    at::Tensor acting = gradient.narrow(0, 0, clients);
    const at::Tensor norm = at::sqrt(at::sum(acting.square(), {1}, /*keepdim=*/true, at::kDouble));
    acting.mul_(at::clamp_max(clip_ / norm, 1.0).to(at::kFloat));
  }
  const int64_t stride = rows.stride(0);
  const at::Tensor& anchor = form_.own_anchor ? anchor_ : received_;
  const DescentWork work{.rule = {.weight_decay = static_cast<float>(weight_decay_),
                                  .momentum = static_cast<float>(momentum_),
                                  .mu = static_cast<float>(form_.mu),
                                  .nesterov = nesterov_},
                         .gradient = gradient.data_ptr<float>(),
                         .anchor = form_.mu > 0 ? anchor.data_ptr<float>() : nullptr,
                         .pulls = form_.pulls ? pulls_.data_ptr<float>() : nullptr,
                         .rates = rates.data_ptr<float>(),
                         .velocity = velocity_.defined() ? velocity_.data_ptr<float>() : nullptr,
                         .rows = rows.data_ptr<float>(),
                         .clients = clients,
                         .n = stride,
                         .anchor_stride = form_.own_anchor ? stride : 0};
  run(work, trained_, rows.device());
}

}  // namespace hanse
