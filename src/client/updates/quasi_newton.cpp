#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "batch_stream.hpp"
#include "hanse/base/aligned.hpp"
#include "hanse/client/updates.hpp"
#include "hanse/model/gradient_record.hpp"
#include "quasi_newton_cohort.hpp"
#include "quasi_newton_rule.hpp"

namespace hanse {

namespace {

class QuasiNewton final : public LocalUpdate {
 public:
  QuasiNewton(const ClientOptions& options, const Federation& federation, Model& model)
      : QuasiNewton(options, federation, model, {options, federation, model.n_params()}) {}

  bool sends_direction() const override { return true; }

  ClientOutcome train(const ClientTask& task) override {
    QuasiNewtonMemory memory = rule_.memory_of(task.state);
    if (!rule_.keeps_pairs()) return descend(task, memory, round_pairs_);
    KeptPairs pairs = rule_.kept_pairs(memory);
    return descend(task, memory, pairs);
  }

  bool trains_side_by_side() const override { return true; }
  std::unique_ptr<CohortUpdate> cohort_update(CohortTraining& cohorts, int64_t n_params) override {
    return make_quasi_newton_cohort(options_, rule_, n_params, cohorts);
  }

 private:
  QuasiNewton(const ClientOptions& options, const Federation& federation, Model& model,
              const QuasiNewtonRule& rule)
      : LocalUpdate(rule.state(), RoundSteps(options)),
        options_(options),
        model_(model),
        batches_(options, federation),
        rule_(rule),
        in_factors_(pays_in_factors()),
        round_pairs_(model.n_params(), rule.keeps_pairs() ? 0 : rule.most(), in_factors_) {
    const auto n = static_cast<std::size_t>(model.n_params());
    if (!rule.sends_last()) sum_.resize(n);
    if (!in_factors_) loose_.resize(n);
  }

  // `pairs`: RoundPairs or KeptPairs.
  template <class Pairs>
  ClientOutcome descend(const ClientTask& task, QuasiNewtonMemory& memory, Pairs& pairs) {
    std::fill(sum_.begin(), sum_.end(), 0.0F);
    const int64_t steps = rule_.steps(task.client);
    const double lr = LocalUpdate::steps().schedule().rate(task.round);
    const auto rate = static_cast<float>(lr);
    const float share = rule_.share(lr, steps);
    std::optional<FreshPair> pair;  // that ends with this step's gradient
    if (rule_.pairs_arrival(memory, steps)) pair = pairs.begin_with_row();
    GradientRecord last;
    GradientRecord* gradient = nullptr;  // whose step is not taken yet
    int64_t step = 0;
    ClientOutcome outcome = batches_.run(task, [&](const Batch& batch, RandomStream& noise) {
      const bool first = ++step == 1;
      if (pair) gradient_behind(memory, task.row, gradient, batch, noise, *pair->change);
      if (first) rule_.arrive(memory, task.row, pair ? pair->step->row() : std::span<float>());
      if (gradient != nullptr) gradient->add_to(task.row, -rate);
      gradient = nullptr;
      const bool makes_next = rule_.makes_pair(step + 1, steps);
      if (step < steps && !makes_next && sum_.empty()) {  // nobody asks for it again
        return model_.sgd_step(task.row, batch, noise, lr, options_.weight_decay);
      }
      std::optional<FreshPair> next;  // whose step goes along this gradient
      if (makes_next) next = pairs.begin(-rate);
      if (!next) last = place_of_loose(task.row, step == steps);
      gradient = next ? next->step : &last;
      const double loss = gradient_at(task.row, batch, noise, *gradient);
      if (pair) pairs.end(*gradient);
      pair = next;
      if (first) {  // nothing is kept but with full batches
        std::copy_n(gradient->row().begin(), memory.gradient.size(), memory.gradient.begin());
      }
      if (!sum_.empty()) gradient->add_to(sum_, share);
      return loss;
    });
    const GradientRecord sum{std::span(sum_)};
    const GradientRecord& sent = sum_.empty() ? *gradient : sum;
    outcome.rate = rule_.rate_is_of_loss()
                       ? rule_.loss_rate(outcome.loss)
                       : rule_.rate_of(sent, pairs.rate(sent), lr, outcome.loss);
    sent.add_to(task.row, -1, 0);
    return outcome;
  }

  // A gradient that no pair keeps; the last one may stand where the model was.
  GradientRecord place_of_loose(std::span<float> row, bool is_last) {
    if (in_factors_) return {};
    return GradientRecord(is_last && options_.weight_decay == 0 ? row : std::span(loose_));
  }

  // Of the loss and the L2 penalty.
  double gradient_at(std::span<const float> row, const Batch& batch, RandomStream& noise,
                     GradientRecord& gradient) {
    if (in_factors_) return model_.record_gradient(row, batch, noise, gradient);
    const std::span<float> to = gradient.row();
    const double loss = model_.loss_and_gradient(row, batch, noise, to);
    const auto decay = static_cast<float>(options_.weight_decay);
    for (std::size_t i = 0; decay > 0 && i < row.size(); ++i) to[i] += decay * row[i];
    return loss;
  }

  // The gradient of this mini-batch where the step began: at the iterate that is not moved yet,
  // where full batches had `gradient`, or in the first step (null) at the model of the last
  // participation.
  void gradient_behind(const QuasiNewtonMemory& memory, std::span<const float> row,
                       const GradientRecord* gradient, const Batch& batch, RandomStream noise,
                       GradientRecord& change) {
    if (rule_.full_batches()) {
      const std::span<const float> known = gradient ? gradient->row() : memory.gradient;
      std::copy(known.begin(), known.end(), change.row().begin());
    } else {
      gradient_at(gradient ? row : memory.model, batch, noise, change);
    }
  }

  // Rows are for what has to be added to or kept.
  bool pays_in_factors() const {
    if (rule_.keeps_pairs() || rule_.full_batches() || !rule_.sends_last()) return false;
    const int64_t cost = model_.record_product_cost(options_.batch);
    return options_.weight_decay == 0 && cost > 0 && cost < model_.n_params();
  }

  ClientOptions options_;
  Model& model_;
  BatchStream batches_;
  QuasiNewtonRule rule_;
  bool in_factors_;
  RoundPairs round_pairs_;  // where no client keeps them
  AlignedFloats loose_;     // [P] a gradient that no pair keeps, when they are rows
  std::vector<float> sum_;  // [P] of the round's gradients, when it is sent
};

}  // namespace

std::unique_ptr<LocalUpdate> make_quasi_newton(const ClientOptions& options,
                                               const Federation& federation, Model& model) {
  return std::make_unique<QuasiNewton>(options, federation, model);
}

}  // namespace hanse
