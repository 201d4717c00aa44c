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
        gradient_(static_cast<std::size_t>(model.n_params())) {
    if (options.gradient == "mean") mean_.resize(gradient_.size());
  }

  bool tells_update() const override { return true; }

  // A flag, the model of the last participation, its gradient with full batches, and the pairs.
  int64_t state_width() const override {
    if (!estimates()) return 0;
    const int64_t n = model_.n_params();
    return 1 + n + (full_batches() ? n : 0) + CurvaturePairs::width(n, options_.pairs);
  }

  ClientOutcome train(const ClientTask& task) override {
    std::fill(mean_.begin(), mean_.end(), 0.0F);
    Memory memory(task.state, *this);
    const int64_t steps = local_steps(options_, federation_.train(task.client).size());
    const double lr = learning_rate(options_, task.round);
    int64_t step = 0;
    ClientOutcome outcome = batches_.run(task, [&](const Batch& batch, RandomStream& noise) {
      const bool first = ++step == 1;
      // Pairs that later ones of the round would push out are not made.
      const bool paired =
          memory.pairs && step > steps - options_.pairs && (!first || *memory.known != 0);
      if (paired) gradient_behind(memory, task.row, first, batch, noise);
      if (first) {
        arrive(memory, task.row);
      } else {
        move(memory, task.row, lr);
      }
      const double loss = gradient_at(task.row, batch, noise, gradient_);
      if (paired) memory.pairs->take(gradient_);
      if (first) std::copy_n(gradient_.begin(), memory.gradient.size(), memory.gradient.begin());
      for (std::size_t i = 0; i < mean_.size(); ++i) mean_[i] += gradient_[i];
      return loss;
    });
    for (float& value : mean_) value /= static_cast<float>(steps);
    const std::vector<float>& told = mean_.empty() ? gradient_ : mean_;
    outcome.rate = memory.pairs && memory.pairs->count() > 0 ? memory.pairs->rate(told)
                                                             : lr * inner_product(told, told);
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
      pairs.emplace(state.subspan(1 + n + gradient.size()), of.model_.n_params(),
                    of.options_.pairs);
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
  // or at the iterate that is not moved yet.
  void gradient_behind(Memory& memory, std::span<const float> row, bool first, const Batch& batch,
                       RandomStream noise) {
    const std::span<float> change = memory.pairs->change();
    if (full_batches()) {
      const std::span<const float> known = first ? memory.gradient : gradient_;
      std::copy(known.begin(), known.end(), change.begin());
    } else {
      gradient_at(first ? memory.model : row, batch, noise, change);
    }
  }

  // The step from the last participation's model to the received one.
  static void arrive(Memory& memory, std::span<const float> row) {
    if (!memory.pairs) return;
    const std::span<float> step = memory.pairs->step();
    for (std::size_t i = 0; i < row.size(); ++i) {
      step[i] = row[i] - memory.model[i];
      memory.model[i] = row[i];
    }
    *memory.known = 1;
  }

  // A local step; it waits for the next mini-batch, whose gradient a pair needs on both sides.
  void move(Memory& memory, std::span<float> row, double lr) const {
    const auto rate = static_cast<float>(lr);
    if (!memory.pairs) {
      for (std::size_t i = 0; i < row.size(); ++i) row[i] -= rate * gradient_[i];
      return;
    }
    const std::span<float> step = memory.pairs->step();
    for (std::size_t i = 0; i < row.size(); ++i) {
      const float before = row[i];
      row[i] -= rate * gradient_[i];
      step[i] = row[i] - before;
    }
  }

  ClientOptions options_;
  const Federation& federation_;
  Model& model_;
  BatchStream batches_;
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
