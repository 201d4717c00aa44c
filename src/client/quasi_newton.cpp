#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "batch_stream.hpp"
#include "curvature_pairs.hpp"
#include "hanse/base/aligned.hpp"
#include "hanse/client/local_update.hpp"
#include "hanse/client/schedule.hpp"
#include "hanse/model/gradient_record.hpp"

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
        sent_(options.gradient != "auto" ? options.gradient
              : steps_.most > 1          ? "update"
                                         : "last"),
        most_(options.rate == "l-bfgs" ? options.pairs : 0),
        in_factors_(pays_in_factors()),
        round_pairs_(model.n_params(), keeps_pairs() ? 0 : most_, in_factors_) {
    const auto n = static_cast<std::size_t>(model.n_params());
    if (sent_ != "last") sum_.resize(n);
    if (!in_factors_) loose_.resize(n);
    if (!pairs_arrivals()) return;
    const int64_t line = whole_lines(model.n_params());
    state_.push_back({"model", line});
    if (full_batches()) state_.push_back({"gradient", line});
    if (keeps_pairs()) state_.push_back({"pairs", KeptPairs::width(model.n_params(), slots())});
    state_.push_back({"known", 1});
  }

  bool sends_direction() const override { return true; }

  ClientOutcome train(const ClientTask& task) override {
    Memory memory = memory_of(task.state);
    if (!keeps_pairs()) return descend(task, memory, round_pairs_);
    KeptPairs pairs(memory.pairs, model_.n_params(), most_, slots());
    return descend(task, memory, pairs);
  }

 private:
  // The blocks of a client's state, rows without what fills their last line.
  struct Memory {
    float* known;               // 1 once the others hold something; null: nothing is kept
    std::span<float> model;     // [P] of the last participation
    std::span<float> gradient;  // [P] there, with full batches
    std::span<float> pairs;     // KeptPairs
  };

  Memory memory_of(std::span<float> state) const {
    if (state.empty()) return {};
    const auto row = [&](const char* name) {
      const auto lines = block(state, name);
      return lines.first(std::min(lines.size(), static_cast<std::size_t>(model_.n_params())));
    };
    return {.known = block(state, "known").data(),
            .model = row("model"),
            .gradient = row("gradient"),
            .pairs = block(state, "pairs")};
  }

  // `pairs`: RoundPairs or KeptPairs.
  template <class Pairs>
  ClientOutcome descend(const ClientTask& task, Memory& memory, Pairs& pairs) {
    std::fill(sum_.begin(), sum_.end(), 0.0F);
    const int64_t steps = local_steps(options_, federation_.train(task.client).size());
    const double lr = learning_rate(options_, task.round);
    const auto rate = static_cast<float>(lr);
    const float share = sent_ == "mean" ? 1 / static_cast<float>(steps) : rate;
    // Pairs that later ones of the round would push out are not made.
    const auto makes_pair = [&](int64_t step) { return step <= steps && step > steps - most_; };
    std::optional<FreshPair> pair;  // that ends with this step's gradient
    if (makes_pair(1) && memory.known && *memory.known != 0) pair = pairs.begin_with_row();
    GradientRecord last;
    GradientRecord* gradient = nullptr;  // whose step is not taken yet
    int64_t step = 0;
    ClientOutcome outcome = batches_.run(task, [&](const Batch& batch, RandomStream& noise) {
      const bool first = ++step == 1;
      if (pair) gradient_behind(memory, task.row, gradient, batch, noise, *pair->change);
      if (first) arrive(memory, task.row, pair);
      if (gradient != nullptr) gradient->add_to(task.row, -rate);
      gradient = nullptr;
      if (step < steps && !makes_pair(step + 1) && sum_.empty()) {  // nobody asks for it again
        return model_.sgd_step(task.row, batch, noise, lr, options_.weight_decay);
      }
      std::optional<FreshPair> next;  // whose step goes along this gradient
      if (makes_pair(step + 1)) next = pairs.begin(-rate);
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
    outcome.rate = options_.rate == "loss" ? std::pow(outcome.loss, options_.rate_power)
                                           : gain(sent, pairs.rate(sent), lr, outcome.loss);
    sent.add_to(task.row, -1, 0);
    return outcome;
  }

  // d of l-bfgs, or without pairs (nothing) of a gradient step.
  double gain(const GradientRecord& sent, std::optional<double> by_pairs, double lr,
              double loss) const {
    const double rate = by_pairs ? *by_pairs : lr * squared_norm(sent);
    return options_.rate_limit > 0 ? std::min(rate, options_.rate_limit * loss) : rate;
  }

  static double squared_norm(const GradientRecord& gradient) {
    const GradientRecord* const one[] = {&gradient};
    double square = 0;
    GradientRecord::gram(one, {&square, 1});
    return square;
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
  void gradient_behind(const Memory& memory, std::span<const float> row,
                       const GradientRecord* gradient, const Batch& batch, RandomStream noise,
                       GradientRecord& change) {
    if (full_batches()) {
      const std::span<const float> known = gradient ? gradient->row() : memory.gradient;
      std::copy(known.begin(), known.end(), change.row().begin());
    } else {
      gradient_at(gradient ? row : memory.model, batch, noise, change);
    }
  }

  // The step from the last participation's model to the received one.
  static void arrive(Memory& memory, std::span<const float> row,
                     const std::optional<FreshPair>& pair) {
    if (!memory.known) return;
    if (!pair) {
      std::copy(row.begin(), row.end(), memory.model.begin());
    } else {
      const std::span<float> step = pair->step->row();
      for (std::size_t i = 0; i < row.size(); ++i) {
        step[i] = row[i] - memory.model[i];
        memory.model[i] = row[i];
      }
    }
    *memory.known = 1;
  }

  bool full_batches() const { return options_.batch == 0; }
  // Some client makes fewer than m pairs in a round and needs older ones. Where nobody does, pairs
  // of earlier rounds would count only in the place of those without curvature, and would cost
  // each client a memory of 2 m rows: they go.
  bool keeps_pairs() const { return steps_.fewest < most_; }
  // Some client is among its last m steps when it receives a model.
  bool pairs_arrivals() const { return steps_.fewest <= most_; }
  // Old pairs, and those that a round makes.
  int64_t slots() const { return most_ + std::min(steps_.most, most_); }

  // Rows are for what has to be added to or kept.
  bool pays_in_factors() const {
    if (keeps_pairs() || full_batches() || sent_ != "last") return false;
    const int64_t cost = model_.record_product_cost(options_.batch);
    return options_.weight_decay == 0 && cost > 0 && cost < model_.n_params();
  }

  ClientOptions options_;
  const Federation& federation_;
  Model& model_;
  BatchStream batches_;
  LocalSteps steps_;
  std::string sent_;  // last | mean | update
  int64_t most_;      // m; 0: no pairs
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
