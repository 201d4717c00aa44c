#include "quasi_newton_rule.hpp"

#include <cmath>
#include <limits>

#include "hanse/base/aligned.hpp"

namespace hanse {

QuasiNewtonRule::QuasiNewtonRule(const ClientOptions& options, const Federation& federation,
                                 int64_t n_params)
    : work_(options),
      options_(options),
      federation_(federation),
      n_params_(n_params),
      fewest_(std::numeric_limits<int64_t>::max()),
      longest_(1),
      most_(options.rate == LoweringRate::kLbfgs ? options.pairs : 0) {
  for (int64_t client = 0; client < federation.clients(); ++client) {
    fewest_ = std::min(fewest_, steps(client));
    longest_ = std::max(longest_, steps(client));
  }
  const SentGradient natural = longest_ > 1 ? SentGradient::kUpdate : SentGradient::kLast;
  sent_ = options.gradient != SentGradient::kAuto ? options.gradient : natural;
  if (fewest_ > most_) return;  // nobody is among its last m steps when it receives a model
  const int64_t line = whole_lines(n_params);
  state_.push_back({"model", line});
  if (full_batches()) state_.push_back({"gradient", line});
  if (keeps_pairs()) state_.push_back({"pairs", KeptPairs::width(n_params, slots())});
  state_.push_back({"known", 1});
}

QuasiNewtonMemory QuasiNewtonRule::memory_of(std::span<float> state) const {
  if (state.empty()) return {};
  const auto row = [&](const char* name) {
    const auto lines = state_block(state_, state, name);
    return lines.first(std::min(lines.size(), static_cast<std::size_t>(n_params_)));
  };
  return {.known = state_block(state_, state, "known").data(),
          .model = row("model"),
          .gradient = row("gradient"),
          .pairs = state_block(state_, state, "pairs")};
}

KeptPairs QuasiNewtonRule::kept_pairs(const QuasiNewtonMemory& memory) const {
  return {memory.pairs, n_params_, most_, slots()};
}

int64_t QuasiNewtonRule::steps(int64_t client) const {
  return local_steps(work_, federation_.train(client).size());
}

void QuasiNewtonRule::arrive(QuasiNewtonMemory& memory, std::span<const float> row,
                             std::span<float> step) {
  if (!memory.known) return;
  for (std::size_t i = 0; i < step.size(); ++i) step[i] = row[i] - memory.model[i];
  std::copy(row.begin(), row.end(), memory.model.begin());
  *memory.known = 1;
}

float QuasiNewtonRule::share(double lr, int64_t steps) const {
  return sent_ == SentGradient::kMean ? 1 / static_cast<float>(steps) : static_cast<float>(lr);
}

double QuasiNewtonRule::loss_rate(double loss) const { return std::pow(loss, options_.rate_power); }

double QuasiNewtonRule::gain(std::optional<double> by_pairs, double lr, double square,
                             double loss) const {
  const double rate = by_pairs ? *by_pairs : lr * square;
  return options_.rate_limit > 0 ? std::min(rate, options_.rate_limit * loss) : rate;
}

double QuasiNewtonRule::rate_of(const GradientRecord& sent, std::optional<double> by_pairs,
                                double lr, double loss) const {
  double square = 0;
  const GradientRecord* const one[] = {&sent};
  if (!by_pairs) GradientRecord::gram(one, {&square, 1});
  return gain(by_pairs, lr, square, loss);
}

}  // namespace hanse
