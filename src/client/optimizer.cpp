#include "optimizer.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/kind.hpp"
#include "hanse/base/processor.hpp"
#include "hanse/client/kinds.hpp"

namespace hanse {

namespace {

// The direction that a value goes against, from its gradient; overwrites the moments.
using Direction = float (*)(const StepSizes& s, float g, float& first, float& second);

inline float sgd(const StepSizes&, float g, float&, float&) { return g; }

inline float heavy_ball(const StepSizes& s, float g, float& v, float&) {
  return with_momentum(s.rule, g, v);
}

inline float adam(const StepSizes& s, float g, float& m, float& v) {
  m = s.beta1 * m + s.rest1 * g;
  v = s.beta2 * v + s.rest2 * g * g;
  return m / (std::sqrt(v) * s.root + s.eps);
}

inline float adagrad(const StepSizes& s, float g, float& v, float&) {
  v += g * g;
  return g / (std::sqrt(v) + s.eps);
}

inline float rmsprop(const StepSizes& s, float g, float& v, float&) {
  v = s.beta2 * v + s.rest2 * g * g;
  return g / (std::sqrt(v) + s.eps);
}

inline float rmsprop_momentum(const StepSizes& s, float g, float& v, float& b) {
  b = s.rule.momentum * b + rmsprop(s, g, v, b);
  return b;
}

// The bits do not depend on how many values an instruction takes.
template <Direction kDirection, int kMoments, bool kAnchors, bool kPulls>
inline __attribute__((always_inline)) void walk(const StepSizes s, const StepRows rows, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const float* anchor = kAnchors ? rows.anchor + i : nullptr;
    const float* pull = kPulls ? rows.pull + i : nullptr;
    const float g = pulled_gradient(s.rule, s.scale * rows.gradient[i], rows.w[i], pull, anchor);
    float m = kMoments > 0 ? rows.first[i] : 0;
    float v = kMoments > 1 ? rows.second[i] : 0;
    rows.w[i] = s.keep * rows.w[i] - s.rate * kDirection(s, g, m, v);
    if (kMoments > 0) rows.first[i] = m;
    if (kMoments > 1) rows.second[i] = v;
  }
}

template <Direction kDirection, int kMoments>
inline __attribute__((always_inline)) void walk_rows(const StepSizes& s, const StepRows& rows,
                                                     int64_t n) {
  const bool anchors = rows.anchor != nullptr, pulls = rows.pull != nullptr;
  if (anchors && pulls) return walk<kDirection, kMoments, true, true>(s, rows, n);
  if (anchors) return walk<kDirection, kMoments, true, false>(s, rows, n);
  if (pulls) return walk<kDirection, kMoments, false, true>(s, rows, n);
  walk<kDirection, kMoments, false, false>(s, rows, n);
}

template <Direction kDirection, int kMoments>
void plain_walk(const StepSizes& s, const StepRows& rows, int64_t n) {
  walk_rows<kDirection, kMoments>(s, rows, n);
}

#if defined(__x86_64__)
template <Direction kDirection, int kMoments>
HANSE_AVX512 void wide_walk(const StepSizes& s, const StepRows& rows, int64_t n) {
  walk_rows<kDirection, kMoments>(s, rows, n);
}
#endif

struct StepRule {
  int64_t moments;
  StepLoop loop;
};

template <Direction kDirection, int kMoments>
StepRule rule_of() {
#if defined(__x86_64__)
  if (has_avx512()) return {kMoments, wide_walk<kDirection, kMoments>};
#endif
  return {kMoments, plain_walk<kDirection, kMoments>};
}

struct ClientOptimizerKind : KindRow<ClientOptions> {
  StepRule (*rule)(bool momentum);
  bool takes_momentum = false;
  bool decoupled = false;
  bool corrected = false;
  bool is_sgd = false;
};

using Own = OptimizerOptions;
const auto optimizer_key = keys_of<ClientOptions>("client", &ClientOptions::optimizer);

const Keys<ClientOptions> kState = optimizer_key(
    "optimizer-state", &Own::state,
    "moments of a client: fresh: from zero in every round; kept: it goes on with its own");

Keys<ClientOptions> eps_key(double value) {
  return with_default(
      optimizer_key("eps", &Own::eps, at_least(0), "added to the root of the second moment"),
      [](ClientOptions& options) -> double& { return options.optimizer.eps; }, value);
}

const Keys<ClientOptions> kAdam{
    optimizer_key("beta1", &Own::beta1, from_below(0, 1), "share of the first moment that stays"),
    optimizer_key("beta2", &Own::beta2, from_below(0, 1), "share of the second moment that stays"),
    eps_key(1e-8), kState};
const Keys<ClientOptions> kSquares = with_default(
    optimizer_key("beta2", &Own::beta2, from_below(0, 1),
                  "share of the second moment that stays, torch's alpha"),
    [](ClientOptions& options) -> double& { return options.optimizer.beta2; }, 0.99);

const std::vector<ClientOptimizerKind> kClientOptimizers{
    {{"sgd",
      "along the gradient, with momentum or without",
      {optimizer_key("nesterov", &Own::nesterov, "look ahead by client.momentum"), kState}},
     [](bool momentum) { return momentum ? rule_of<heavy_ball, 1>() : rule_of<sgd, 0>(); },
     true,
     false,
     false,
     true},
    {{"adam", "with L2 decay in the gradient (Kingma and Ba 2015)", kAdam},
     [](bool) { return rule_of<adam, 2>(); },
     false,
     false,
     true},
    {{"adamw", "with decay beside the gradient (Loshchilov and Hutter 2019)", kAdam},
     [](bool) { return rule_of<adam, 2>(); },
     false,
     true,
     true},
    {{"adagrad", "by all squared gradients (Duchi et al. 2011)", {eps_key(1e-10), kState}},
     [](bool) { return rule_of<adagrad, 1>(); }},
    {{"rmsprop", "by recent squared gradients (Hinton 2012)", {kSquares, eps_key(1e-8), kState}},
     [](bool momentum) {
       return momentum ? rule_of<rmsprop_momentum, 2>() : rule_of<rmsprop, 1>();
     },
     true}};

}  // namespace

std::string beyond_plain_steps(const StepOptions& options) {
  const auto& kind = find_kind(kClientOptimizers, "client.optimizer", options.optimizer.kind);
  if (!kind.is_sgd) return "client.optimizer";
  if (options.momentum > 0) return "client.momentum";
  if (options.clip > 0) return "client.clip";
  if (options.accumulate > 1) return "client.accumulate";
  return options.schedule.over == ScheduleOver::kSteps ? "client.schedule-over" : "";
}

bool keeps_moments(const StepOptions& options) {
  const auto& kind = find_kind(kClientOptimizers, "client.optimizer", options.optimizer.kind);
  return options.optimizer.state == Moments::kKept && kind.rule(options.momentum > 0).moments > 0;
}

std::vector<KindRow<ClientOptions>> client_optimizer_kinds() {
  return {kClientOptimizers.begin(), kClientOptimizers.end()};
}

ClientOptimizer::ClientOptimizer(const StepOptions& options, int64_t n_trainable)
    : options_(options), size_(n_trainable) {
  const auto& kind = find_kind(kClientOptimizers, "client.optimizer", options.optimizer.kind);
  const bool momentum = options.momentum > 0;
  if (momentum && !kind.takes_momentum) {
    throw InvalidArgument(fmt::format("{} has moments of its own", kind.name), "client.momentum",
                          "leave it at 0, or use client.optimizer = sgd or rmsprop");
  }
  if (options.optimizer.nesterov && !momentum && kind.is_sgd) {
    throw InvalidArgument("without momentum there is nothing to look ahead by", "client.nesterov",
                          "use client.momentum = 0.9");
  }
  is_sgd_ = kind.is_sgd;
  const StepRule rule = kind.rule(momentum);
  moments_ = rule.moments;
  loop_ = rule.loop;
  decoupled_ = kind.decoupled;
  corrected_ = kind.corrected;
  if (keeps()) return;
  fresh_.assign(static_cast<std::size_t>(moments_), AlignedFloats(static_cast<std::size_t>(size_)));
}

std::vector<StateBlock> ClientOptimizer::state_blocks() const {
  if (!keeps() || moments_ == 0) return {};
  return {{"moments", moments_ * size_}, {"steps", 1}};
}

float* ClientOptimizer::moment(int64_t which, std::span<float> state) {
  if (which >= moments_) return nullptr;
  if (keeps()) return state.data() + which * size_;
  return fresh_[static_cast<std::size_t>(which)].data();
}

void ClientOptimizer::start(std::span<float> row, std::span<float> state,
                            const StepForces& forces) {
  for (AlignedFloats& moments : fresh_) std::fill(moments.begin(), moments.end(), 0.0F);
  age_ = keeps() && moments_ > 0 ? static_cast<int64_t>(state.back()) : 0;
  mu_ = static_cast<float>(forces.mu);
  rows_ = {.w = row.data(),
           .gradient = nullptr,
           .anchor = forces.anchor,
           .pull = forces.pull,
           .first = moment(0, state),
           .second = moment(1, state)};
}

void ClientOptimizer::next(double lr, double scale) {
  ++age_;
  const OptimizerOptions& o = options_.optimizer;
  const auto rest = [&](double beta) { return 1 - std::pow(beta, static_cast<double>(age_)); };
  const auto number = [](double value) { return static_cast<float>(value); };
  sizes_ = {.scale = number(scale),
            .rule = {.weight_decay = decoupled_ ? 0.0F : number(options_.weight_decay),
                     .momentum = number(options_.momentum),
                     .mu = mu_,
                     .nesterov = o.nesterov},
            .keep = decoupled_ ? number(1 - lr * options_.weight_decay) : 1.0F,
            .rate = number(corrected_ ? lr / rest(o.beta1) : lr),
            .beta1 = number(o.beta1),
            .rest1 = number(1 - o.beta1),
            .beta2 = number(o.beta2),
            .rest2 = number(1 - o.beta2),
            .root = corrected_ ? number(1 / std::sqrt(rest(o.beta2))) : 1.0F,
            .eps = number(o.eps)};
}

void ClientOptimizer::apply(int64_t offset, const float* gradient, int64_t size) {
  const auto at = [&](auto* row) { return row == nullptr ? nullptr : row + offset; };
  loop_(sizes_,
        {.w = rows_.w + offset,
         .gradient = gradient,
         .anchor = at(rows_.anchor),
         .pull = at(rows_.pull),
         .first = at(rows_.first),
         .second = at(rows_.second)},
        size);
}

void ClientOptimizer::finish(std::span<float> state) const {
  if (keeps() && moments_ > 0) state.back() = static_cast<float>(age_);
}

}  // namespace hanse
