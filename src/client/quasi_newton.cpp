#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "batch_stream.hpp"
#include "curvature.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/products.hpp"
#include "hanse/client/local_update.hpp"

namespace hanse {

namespace {

class QuasiNewton final : public LocalUpdate {
 public:
  QuasiNewton(const ClientOptions& options, const Federation& federation, Model& model)
      : options_(options),
        federation_(federation),
        model_(model),
        batches_(options, federation),
        most_fresh_(fresh_in_a_round()),
        gradient_(static_cast<std::size_t>(model.n_params())) {
    if (options.gradient == "mean") mean_.resize(gradient_.size());
  }

  bool tells_update() const override { return true; }

  // A flag, the model of the last participation, its gradient with full batches, and the pairs.
  int64_t state_width() const override {
    if (!estimates()) return 0;
    const int64_t n = model_.n_params();
    return 1 + n + (full_batches() ? n : 0) + CurvaturePairs::width(n, options_.pairs, most_fresh_);
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
      gradient = next ? next->step : std::span(gradient_);
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
    Memory(std::span<float> state, const QuasiNewton& of) {
      if (state.empty()) return;
      const auto n = static_cast<std::size_t>(of.model_.n_params());
      known = state.data();
      model = state.subspan(1, n);
      gradient = state.subspan(1 + n, of.full_batches() ? n : 0);
      pairs.emplace(state.subspan(1 + n + gradient.size()), of.model_.n_params(), of.options_.pairs,
                    of.most_fresh_);
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
    if (!memory.pairs) return;
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

  // Pairs that one round makes.
  int64_t fresh_in_a_round() const {
    int64_t most = 1;
    for (int64_t client = 0; client < federation_.clients(); ++client) {
      most = std::max(most, local_steps(options_, federation_.train(client).size()));
    }
    return std::min(most, options_.pairs);
  }

  ClientOptions options_;
  const Federation& federation_;
  Model& model_;
  BatchStream batches_;
  int64_t most_fresh_;
  std::vector<float> gradient_;  // [P]
  std::vector<float> mean_;      // [P] of the round's gradients, when they are told
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
