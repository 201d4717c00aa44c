#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "batch_stream.hpp"
#include "curvature.hpp"
#include "hanse/base/aligned.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/products.hpp"
#include "hanse/client/local_update.hpp"

namespace hanse {

namespace {

// That a client takes in a round.
struct LocalSteps {
  int64_t fewest = std::numeric_limits<int64_t>::max();
  int64_t most = 1;
};

LocalSteps fewest_and_most_steps(const ClientOptions& options, const Federation& federation) {
  LocalSteps found;
  for (int64_t client = 0; client < federation.clients(); ++client) {
    const int64_t steps = local_steps(options, federation.train(client).size());
    found.fewest = std::min(found.fewest, steps);
    found.most = std::max(found.most, steps);
  }
  return found;
}

class QuasiNewton final : public LocalUpdate {
 public:
  QuasiNewton(const ClientOptions& options, const Federation& federation, Model& model)
      : options_(options),
        federation_(federation),
        model_(model),
        batches_(options, federation),
        steps_(fewest_and_most_steps(options, federation)),
        gradient_(static_cast<std::size_t>(model.n_params())) {
    if (options.gradient == "mean") mean_.resize(gradient_.size());
    if (estimates() && !keeps_pairs()) pairs_.resize(static_cast<std::size_t>(pairs_width()));
  }

  bool tells_update() const override { return true; }

  // The model of the last participation, its gradient with full batches, the pairs, and a flag.
  int64_t state_width() const override {
    if (!estimates() || !pairs_arrivals()) return 0;
    const int64_t n = whole_lines(model_.n_params());
    return n + (full_batches() ? n : 0) + (keeps_pairs() ? pairs_width() : 0) + 1;
  }

  ClientOutcome train(const ClientTask& task) override {
    std::fill(mean_.begin(), mean_.end(), 0.0F);
    Memory memory(task.state, *this);
    const int64_t steps = local_steps(options_, federation_.train(task.client).size());
    const auto lr = static_cast<float>(learning_rate(options_, task.round));
    // Pairs that later ones of the round would push out are not made.
    const auto makes_pair = [&](int64_t step) {
      return memory.pairs && step <= steps && step > steps - options_.pairs;
    };
    std::optional<CurvaturePairs::Fresh> pair;  // that ends with this step's gradient
    if (makes_pair(1) && *memory.known != 0) pair = memory.pairs->begin(1);
    std::span<float> gradient = gradient_;
    int64_t step = 0;
    ClientOutcome outcome = batches_.run(task, [&](const Batch& batch, RandomStream& noise) {
      const bool first = ++step == 1;
      if (pair) gradient_behind(memory, task.row, first, gradient, batch, noise, pair->change);
      if (first) {
        arrive(memory, task.row, pair);
      } else {
        for (std::size_t i = 0; i < gradient.size(); ++i) task.row[i] -= lr * gradient[i];
      }
      // The next step goes along this gradient.
      std::optional<CurvaturePairs::Fresh> next;
      if (makes_pair(step + 1)) next = memory.pairs->begin(-lr);
      const bool in_place = step == steps && options_.weight_decay == 0;  // the last one
      gradient = next ? next->step : in_place ? task.row : std::span(gradient_);
      const double loss = gradient_at(task.row, batch, noise, gradient);
      if (pair) memory.pairs->end(gradient);
      pair = next;
      if (first) std::copy_n(gradient.begin(), memory.gradient.size(), memory.gradient.begin());
      for (std::size_t i = 0; i < mean_.size(); ++i) mean_[i] += gradient[i];
      return loss;
    });
    for (float& value : mean_) value /= static_cast<float>(steps);
    const std::span<const float> told = mean_.empty() ? gradient : std::span<float>(mean_);
    const auto rate = memory.pairs ? memory.pairs->rate(told) : std::nullopt;
    outcome.rate = rate ? *rate : static_cast<double>(lr) * inner_product(told, told);
    if (options_.rate_limit > 0) {
      outcome.rate = std::min(outcome.rate, options_.rate_limit * outcome.loss);
    }
    std::transform(told.begin(), told.end(), task.row.begin(), std::negate<>());
    return outcome;
  }

 private:
  // The parts of a client's state.
  struct Memory {
    Memory(std::span<float> state, QuasiNewton& of) {
      const auto n = static_cast<std::size_t>(of.model_.n_params());
      const std::size_t rows = of.full_batches() ? 2 : 1;
      if (!state.empty()) {
        known = &state.back();
        model = state.first(n);
        gradient = state.subspan(whole_lines(n), (rows - 1) * n);
      }
      if (!of.estimates()) return;
      const std::span<float> own(of.pairs_);
      pairs.emplace(of.keeps_pairs() ? state.subspan(rows * whole_lines(n)) : own,
                    of.model_.n_params(), of.options_.pairs, of.slots());
    }
    float* known = nullptr;     // 1 once the others hold something
    std::span<float> model;     // [P] of the last participation
    std::span<float> gradient;  // [P] there, with full batches
    std::optional<CurvaturePairs> pairs;
  };

  bool estimates() const { return options_.rate == "l-bfgs"; }
  bool full_batches() const { return options_.batch == 0; }

  // Of the loss and the L2 penalty.
  double gradient_at(std::span<const float> row, const Batch& batch, RandomStream& noise,
                     std::span<float> gradient) {
    const double loss = model_.loss_and_gradient(row, batch, noise, gradient);
    const auto decay = static_cast<float>(options_.weight_decay);
    for (std::size_t i = 0; decay > 0 && i < row.size(); ++i) gradient[i] += decay * row[i];
    return loss;
  }

  // The gradient of this mini-batch where the step began: at the model of the last participation,
  // or at the iterate that is not moved yet, where full batches had `gradient`.
  void gradient_behind(const Memory& memory, std::span<const float> row, bool first,
                       std::span<const float> gradient, const Batch& batch, RandomStream noise,
                       std::span<float> change) {
    if (full_batches()) {
      const std::span<const float> known = first ? memory.gradient : gradient;
      std::copy(known.begin(), known.end(), change.begin());
    } else {
      gradient_at(first ? memory.model : row, batch, noise, change);
    }
  }

  // The step from the last participation's model to the received one.
  static void arrive(Memory& memory, std::span<const float> row,
                     const std::optional<CurvaturePairs::Fresh>& pair) {
    if (!memory.known) return;
    if (!pair) {
      std::copy(row.begin(), row.end(), memory.model.begin());
    } else {
      for (std::size_t i = 0; i < row.size(); ++i) {
        pair->step[i] = row[i] - memory.model[i];
        memory.model[i] = row[i];
      }
    }
    *memory.known = 1;
  }

  // Some client makes fewer than m pairs in a round and needs older ones. Where nobody does, pairs
  // of earlier rounds would count only in the place of those without curvature, and would cost
  // each client a memory of 2 m rows: they go.
  bool keeps_pairs() const { return steps_.fewest < options_.pairs; }
  // Some client is among its last m steps when it receives a model.
  bool pairs_arrivals() const { return steps_.fewest <= options_.pairs; }
  // Old pairs, and those that a round makes.
  int64_t slots() const {
    return options_.pairs + (keeps_pairs() ? std::min(steps_.most, options_.pairs) : 0);
  }
  int64_t pairs_width() const { return CurvaturePairs::width(model_.n_params(), slots()); }

  ClientOptions options_;
  const Federation& federation_;
  Model& model_;
  BatchStream batches_;
  LocalSteps steps_;
  AlignedFloats gradient_;   // [P]
  AlignedFloats pairs_;      // of one client's round, where no client keeps them
  std::vector<float> mean_;  // [P] of the round's gradients, when they are told
};

void refuse(bool given, const std::string& key) {
  if (!given) return;
  throw InvalidArgument(
      fmt::format("dqn-fed works on plain gradients and cannot be used with {}", key), key,
      "leave it out, or choose another aggregator.kind");
}

}  // namespace

std::unique_ptr<LocalUpdate> make_quasi_newton(const ClientOptions& options,
                                               const Federation& federation, Model& model) {
  refuse(options.kind != "sgd", "client.update = " + options.kind);
  refuse(options.momentum > 0, "client.momentum");
  refuse(options.clip > 0, "client.clip");
  return std::make_unique<QuasiNewton>(options, federation, model);
}

}  // namespace hanse
