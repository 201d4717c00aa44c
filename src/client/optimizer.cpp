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

// The bits do not depend on how many values an instruction takes.
template <StepRule kRule, bool kAnchors, bool kPulls>
inline __attribute__((always_inline)) void walk(const StepNumbers s, const StepSize size,
                                                const StepRows rows, int64_t n) {
  constexpr int64_t kMoments = moments_of(kRule);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const float* anchor = kAnchors ? rows.anchor + i : nullptr;
    const float* pull = kPulls ? rows.pull + i : nullptr;
    const float g = pulled_gradient(s.rule, size.scale * rows.gradient[i], rows.w[i], pull, anchor);
    float m = kMoments > 0 ? rows.first[i] : 0;
    float v = kMoments > 1 ? rows.second[i] : 0;
    rows.w[i] = size.keep * rows.w[i] - size.rate * direction<kRule>(s, size.root, g, m, v);
    if (kMoments > 0) rows.first[i] = m;
    if (kMoments > 1) rows.second[i] = v;
  }
}

template <StepRule kRule>
inline __attribute__((always_inline)) void walk_rows(const StepNumbers& s, const StepSize& size,
                                                     const StepRows& rows, int64_t n) {
  const bool anchors = rows.anchor != nullptr, pulls = rows.pull != nullptr;
  if (anchors && pulls) return walk<kRule, true, true>(s, size, rows, n);
  if (anchors) return walk<kRule, true, false>(s, size, rows, n);
  if (pulls) return walk<kRule, false, true>(s, size, rows, n);
  walk<kRule, false, false>(s, size, rows, n);
}

template <StepRule kRule>
void plain_walk(const StepNumbers& s, const StepSize& size, const StepRows& rows, int64_t n) {
  walk_rows<kRule>(s, size, rows, n);
}

#if defined(__x86_64__)
template <StepRule kRule>
HANSE_AVX512 void wide_walk(const StepNumbers& s, const StepSize& size, const StepRows& rows,
                            int64_t n) {
  walk_rows<kRule>(s, size, rows, n);
}
#endif

template <StepRule kRule>
StepLoop loop_of() {
#if defined(__x86_64__)
  if (has_avx512()) return wide_walk<kRule>;
#endif
  return plain_walk<kRule>;
}

StepLoop loop_of(StepRule rule) {
  switch (rule) {
    case StepRule::kSgd: return loop_of<StepRule::kSgd>();
    case StepRule::kMomentum: return loop_of<StepRule::kMomentum>();
    case StepRule::kAdam: return loop_of<StepRule::kAdam>();
    case StepRule::kAdagrad: return loop_of<StepRule::kAdagrad>();
    case StepRule::kRmsprop: return loop_of<StepRule::kRmsprop>();
    case StepRule::kRmspropMomentum: break;
  }
  return loop_of<StepRule::kRmspropMomentum>();
}

struct ClientOptimizerKind : KindRow<ClientOptions> {
  StepRule rule;
  StepRule with_momentum;  // the same: it has moments of its own
  bool decoupled = false;
  bool corrected = false;
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
     StepRule::kSgd,
     StepRule::kMomentum},
    {{"adam", "with L2 decay in the gradient (Kingma and Ba 2015)", kAdam},
     StepRule::kAdam,
     StepRule::kAdam,
     /*decoupled=*/false,
     /*corrected=*/true},
    {{"adamw", "with decay beside the gradient (Loshchilov and Hutter 2019)", kAdam},
     StepRule::kAdam,
     StepRule::kAdam,
     /*decoupled=*/true,
     /*corrected=*/true},
    {{"adagrad", "by all squared gradients (Duchi et al. 2011)", {eps_key(1e-10), kState}},
     StepRule::kAdagrad,
     StepRule::kAdagrad},
    {{"rmsprop", "by recent squared gradients (Hinton 2012)", {kSquares, eps_key(1e-8), kState}},
     StepRule::kRmsprop,
     StepRule::kRmspropMomentum}};

const ClientOptimizerKind& kind_of(const StepOptions& options) {
  return find_kind(kClientOptimizers, "client.optimizer", options.optimizer.kind);
}

StepRule rule_of(const StepOptions& options) {
  const ClientOptimizerKind& kind = kind_of(options);
  return options.momentum > 0 ? kind.with_momentum : kind.rule;
}

float number(double value) { return static_cast<float>(value); }

}  // namespace

std::string beyond_plain_steps(const StepOptions& options) {
  if (kind_of(options).rule != StepRule::kSgd) return "client.optimizer";
  if (options.momentum > 0) return "client.momentum";
  if (options.clip > 0) return "client.clip";
  if (options.accumulate > 1) return "client.accumulate";
  return options.schedule.over == ScheduleOver::kSteps ? "client.schedule-over" : "";
}

int64_t moments_of(const StepOptions& options) { return moments_of(rule_of(options)); }

bool keeps_moments(const StepOptions& options) {
  return options.optimizer.state == Moments::kKept && moments_of(options) > 0;
}

std::vector<KindRow<ClientOptions>> client_optimizer_kinds() {
  return {kClientOptimizers.begin(), kClientOptimizers.end()};
}

Stepping::Stepping(const StepOptions& options) : options_(options) {
  const ClientOptimizerKind& kind = kind_of(options);
  const OptimizerOptions& o = options.optimizer;
  if (options.momentum > 0 && kind.rule == kind.with_momentum) {
    throw InvalidArgument(fmt::format("{} has moments of its own", kind.name), "client.momentum",
                          "leave it at 0, or use client.optimizer = sgd or rmsprop");
  }
  if (o.nesterov && options.momentum == 0 && kind.rule == StepRule::kSgd) {
    throw InvalidArgument("without momentum there is nothing to look ahead by", "client.nesterov",
                          "use client.momentum = 0.9");
  }
  decoupled_ = kind.decoupled;
  corrected_ = kind.corrected;
  numbers_ = {.kind = rule_of(options),
              .rule = {.weight_decay = decoupled_ ? 0.0F : number(options.weight_decay),
                       .momentum = number(options.momentum),
                       .nesterov = o.nesterov},
              .beta1 = number(o.beta1),
              .rest1 = number(1 - o.beta1),
              .beta2 = number(o.beta2),
              .rest2 = number(1 - o.beta2),
              .eps = number(o.eps)};
}

StepSize Stepping::size(double lr, double scale, int64_t age) const {
  const OptimizerOptions& o = options_.optimizer;
  const auto rest = [&](double beta) { return 1 - std::pow(beta, static_cast<double>(age)); };
  return {.rate = number(corrected_ ? lr / rest(o.beta1) : lr),
          .scale = number(scale),
          .keep = decoupled_ ? number(1 - lr * options_.weight_decay) : 1.0F,
          .root = corrected_ ? number(1 / std::sqrt(rest(o.beta2))) : 1.0F};
}

ClientOptimizer::ClientOptimizer(const StepOptions& options, int64_t n_trainable)
    : stepping_(options),
      numbers_(stepping_.numbers()),
      moments_(moments_of(numbers_.kind)),
      size_(n_trainable),
      keeps_(keeps_moments(options)),
      loop_(loop_of(numbers_.kind)) {
  if (keeps_) return;
  fresh_.assign(static_cast<std::size_t>(moments_), AlignedFloats(static_cast<std::size_t>(size_)));
}

std::vector<StateBlock> ClientOptimizer::state_blocks() const {
  if (!keeps_) return {};
  return {{"moments", moments_ * size_}, {"steps", 1}};
}

float* ClientOptimizer::moment(int64_t which, std::span<float> state) {
  if (which >= moments_) return nullptr;
  if (keeps_) return state.data() + which * size_;
  return fresh_[static_cast<std::size_t>(which)].data();
}

void ClientOptimizer::start(std::span<float> row, std::span<float> state,
                            const StepForces& forces) {
  for (AlignedFloats& moments : fresh_) std::fill(moments.begin(), moments.end(), 0.0F);
  age_ = keeps_ ? static_cast<int64_t>(state.back()) : 0;
  part_ = nullptr;
  numbers_.rule.mu = number(forces.mu);
  rows_ = {.w = row.data(),
           .gradient = nullptr,
           .anchor = forces.anchor,
           .pull = forces.pull,
           .first = moment(0, state),
           .second = moment(1, state)};
}

void ClientOptimizer::next(double lr, double scale) { step_ = stepping_.size(lr, scale, ++age_); }

void ClientOptimizer::move(const MovingPart& part, int64_t age_change) {
  part_ = part.all ? nullptr : &part;
  age_ += age_change;
}

void ClientOptimizer::clear_still(std::span<float> gradient) const {
  if (part_ == nullptr) return;
  int64_t begin = 0;
  const auto clear = [&](int64_t end) {
    std::fill(gradient.begin() + begin, gradient.begin() + end, 0.0F);
  };
  for (const RowPart& moving : part_->parts) {
    clear(moving.begin);
    begin = moving.end;
  }
  clear(std::ssize(gradient));
}

void ClientOptimizer::apply(int64_t offset, const float* gradient, int64_t size) {
  if (part_ == nullptr) return step(offset, gradient, size);
  for (const RowPart& moving : part_->parts) {
    const int64_t first = std::max(offset, moving.begin);
    const int64_t last = std::min(offset + size, moving.end);
    if (first < last) step(first, gradient + (first - offset), last - first);
  }
}

void ClientOptimizer::step(int64_t offset, const float* gradient, int64_t size) {
  const auto at = [&](auto* row) { return row == nullptr ? nullptr : row + offset; };
  loop_(numbers_, step_,
        {.w = rows_.w + offset,
         .gradient = gradient,
         .anchor = at(rows_.anchor),
         .pull = at(rows_.pull),
         .first = at(rows_.first),
         .second = at(rows_.second)},
        size);
}

void ClientOptimizer::finish(std::span<float> state) const {
  if (keeps_) state.back() = number(static_cast<double>(age_));
}

}  // namespace hanse
