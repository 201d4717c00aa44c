#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "batch_stream.hpp"
#include "hanse/base/aligned.hpp"
#include "hanse/base/index.hpp"
#include "hanse/client/cohort_update.hpp"
#include "hanse/client/updates.hpp"
#include "hanse/model/cohort_gradients.hpp"
#include "hanse/model/gradient_record.hpp"
#include "hanse/model/torch_library.hpp"
#include "quasi_newton_rule.hpp"

namespace hanse {

namespace {

// What make_quasi_newton() does with one client after the other. The gradients of the pairs stay on
// the device: a table of 2 f + 1 rows a client, f the most pairs of a round, and one for the sum
// that is sent. Without pairs of earlier rounds their products are made there, and the host gets
// numbers. With them the rows go to the client's state in the host's memory, 2 f + 1 each, where
// its old pairs are, and the products are made there: a pass over all of them. `rule` and `cohorts`
// must outlive the object. Cost beyond the host's: another gradient of all clients for each step
// with which some client's pair ends, unless batches are full.
class QuasiNewtonCohort final : public CohortUpdate {
 public:
  QuasiNewtonCohort(const StepOptions& options, const QuasiNewtonRule& rule, int64_t n_params,
                    CohortTraining& cohorts)
      : schedule_(options),
        rule_(rule),
        cohorts_(cohorts),
        n_params_(to_index(n_params)),
        table_(torch_library().make_cohort_gradients(
            cohorts.cohort(), sum_line() + (rule.sends_last() ? 0 : 1), options.weight_decay)),
        row_(n_params_) {}

  bool reads_received() const override { return true; }
  std::vector<ClientOutcome> train(std::span<const ClientTask> tasks,
                                   const ReceivedModels& received) override {
    places_.clear();
    for (const ClientTask& task : tasks) {
      Place place{.steps = rule_.steps(task.client),
                  .lr = schedule_.rate(task.round),
                  .memory = rule_.memory_of(task.state)};
      place.arrives = rule_.pairs_arrival(place.memory, place.steps);
      places_.push_back(place);
    }
    if (!rule_.sends_last()) table_->clear(sum_line());
    const auto starts = rows_of_arrival(received);
    const Cohort::Start start{.rows = starts, .received = received.each()};
    auto outcomes = cohorts_.train(tasks, start, [&](int64_t number, int64_t step) {
      make_step(number, step, !starts.empty());
    });
    std::vector<int64_t> sent;
    for (const Place& place : places_) sent.push_back(sent_line(place));
    table_->send(sent);
    return outcomes;
  }

  void finish(std::span<const double> losses, const ReceivedModels& received,
              std::span<ClientOutcome> outcomes) override {
    cohorts_.finish(losses, outcomes);
    for (std::size_t i = 0; i < places_.size(); ++i) {
      outcomes[i].rate = rule_.rate_is_of_loss() ? rule_.loss_rate(outcomes[i].loss)
                         : rule_.keeps_pairs()   ? rate_on_host(i, received[i], outcomes[i].loss)
                                                 : rate_on_device(i, received[i], outcomes[i].loss);
    }
  }

  const at::Tensor& origin() override { return table_->origin(); }

 private:
  struct Place {
    int64_t steps;
    double lr;  // of its round
    QuasiNewtonMemory memory;
    float rate() const { return static_cast<float>(lr); }
    bool arrives = false;  // the first pair begins at the model of its last participation
  };

  // Lines of the table: the gradients at the iterates of the last f + 1 steps, where step 0 is what
  // led to the received model; and the last f gradients of a step's batch at the iterate before. A
  // client that has finished leaves its lines as they are.
  int64_t gradient_line(int64_t step) const { return step % (rule_.fresh() + 1); }
  int64_t change_line(int64_t step) const {
    return rule_.fresh() + 1 + (rule_.fresh() > 0 ? step % rule_.fresh() : 0);
  }
  int64_t sum_line() const { return 2 * rule_.fresh() + 1; }
  int64_t sent_line(const Place& place) const {
    return rule_.sends_last() ? gradient_line(place.steps) : sum_line();
  }

  // value(place) of each client, 0 of empty places.
  template <class Value>
  std::span<const float> of_each(Value value) {
    each_.assign(to_index(cohorts_.clients()), 0.0F);
    for (std::size_t i = 0; i < places_.size(); ++i) each_[i] = value(places_[i]);
    return each_;
  }

  // [n, P] where the first pairs begin; empty: nobody needs a gradient there.
  std::span<const float> rows_of_arrival(const ReceivedModels& received) {
    const bool any = std::any_of(places_.begin(), places_.end(),
                                 [](const Place& place) { return place.arrives; });
    if (!any || rule_.full_batches()) return {};
    arrivals_.clear();
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const Place& place = places_[i];
      const std::span<const float> from = place.arrives ? place.memory.model : received[i];
      arrivals_.insert(arrivals_.end(), from.begin(), from.end());
    }
    return arrivals_;
  }

  // Makes this step of all clients that have it. `arrives`: the rows stand where first pairs begin.
  void make_step(int64_t number, int64_t step, bool arrives) {
    const auto pairs = of_each([&](const Place& place) {
      return rule_.makes_pair(step, place.steps) && (step > 1 || place.arrives) ? 1.0F : 0.0F;
    });
    const bool any = std::any_of(pairs.begin(), pairs.end(), [](float one) { return one != 0; });
    if (any && !rule_.full_batches()) table_->find(number, false, pairs, change_line(step));
    if (step == 1 && arrives) table_->return_rows();
    const auto here = [&](auto value) {
      return of_each([&](const Place& place) { return step <= place.steps ? value(place) : 0.0F; });
    };
    if (step > 1) {
      table_->move_rows(gradient_line(step - 1),
                        here([](const Place& place) { return -place.rate(); }));
    }
    table_->find(number, true, here([](const Place&) { return 1.0F; }), gradient_line(step));
    if (rule_.sends_last()) return;
    table_->add(gradient_line(step),
                here([&](const Place& place) { return rule_.share(place.lr, place.steps); }),
                sum_line());
  }

  // The line of the gradient, where the step began, of a pair that ends with step 1 or later.
  int64_t behind(int64_t step) const {
    return rule_.full_batches() && step > 1 ? gradient_line(step - 1) : change_line(step);
  }
  int64_t first_pair(const Place& place) const {
    return std::max<int64_t>(place.arrives ? 1 : 2, place.steps - rule_.most() + 1);
  }

  // Takes the round's own pairs, whose products come from the device.
  double rate_on_device(std::size_t i, std::span<const float> received, double loss) {
    Place& place = places_[i];
    const auto client = static_cast<int64_t>(i);
    arrive(client, place, received);
    std::vector<int64_t> lines = {sent_line(place)};
    const auto at = [&](int64_t line) {
      const auto found = std::find(lines.begin(), lines.end(), line);
      const auto index = static_cast<std::size_t>(found - lines.begin());
      if (found == lines.end()) lines.push_back(line);
      return index;
    };
    std::vector<PairTerms> pairs;
    for (int64_t step = first_pair(place); step <= place.steps; ++step) {
      pairs.push_back({.factor = step == 1 ? 1 : -place.rate(),
                       .step = at(gradient_line(step - 1)),
                       .change = at(behind(step)),
                       .end = at(gradient_line(step))});
    }
    const auto gram = table_->gram(client, lines);
    return rule_.gain(rate_of_pairs(pairs, gram), place.lr, gram.front(), loss);
  }

  // Uploads the way to the received model and, with full batches, the gradient where it began.
  void arrive(int64_t client, Place& place, std::span<const float> received) {
    rule_.arrive(place.memory, received, place.arrives ? std::span(row_) : std::span<float>());
    if (place.arrives) {
      table_->put(client, gradient_line(0), row_);
      if (rule_.full_batches()) table_->put(client, change_line(1), place.memory.gradient);
    }
    keep_first_gradient(client, place);
  }

  void keep_first_gradient(int64_t client, Place& place) {
    if (!place.memory.gradient.empty()) {
      table_->take(client, gradient_line(1), place.memory.gradient);
    }
  }

  // Takes old pairs, too: the round's own are first copied to where the client keeps them.
  double rate_on_host(std::size_t i, std::span<const float> received, double loss) {
    Place& place = places_[i];
    const auto client = static_cast<int64_t>(i);
    KeptPairs pairs = rule_.kept_pairs(place.memory);
    std::optional<FreshPair> pair;
    if (place.arrives) {
      pair = pairs.begin_with_row();
      if (rule_.full_batches()) {
        std::copy(place.memory.gradient.begin(), place.memory.gradient.end(),
                  pair->change->row().begin());
      } else {
        table_->take(client, change_line(1), pair->change->row());
      }
    }
    rule_.arrive(place.memory, received, pair ? pair->step->row() : std::span<float>());
    AlignedFloats end(n_params_);
    for (int64_t step = first_pair(place) - 1; step <= place.steps; ++step) {
      if (step == 0) continue;
      std::optional<FreshPair> next;
      if (rule_.makes_pair(step + 1, place.steps)) next = pairs.begin(-place.rate());
      GradientRecord last{std::span(end)};
      GradientRecord& gradient = next ? *next->step : last;
      table_->take(client, gradient_line(step), gradient.row());
      if (next) table_->take(client, behind(step + 1), next->change->row());
      if (pair) pairs.end(gradient);
      pair = next;
    }
    keep_first_gradient(client, place);
    table_->take(client, sent_line(place), row_);
    const GradientRecord sent{std::span(row_)};
    return rule_.rate_of(sent, pairs.rate(sent), place.lr, loss);
  }

  Schedule schedule_;
  const QuasiNewtonRule& rule_;
  CohortTraining& cohorts_;
  std::size_t n_params_;
  std::unique_ptr<CohortGradients> table_;
  std::vector<Place> places_;  // of the cohort in training
  std::vector<float> each_;    // [C]
  std::vector<float> arrivals_;
  AlignedFloats row_;  // [P]
};

// One client after the other.
class QuasiNewton final : public LocalUpdate {
 public:
  QuasiNewton(const ClientOptions& options, const Federation& federation, Model& model)
      : QuasiNewton(options, federation, model, {options, federation, model.n_params()}) {}

  bool sends_direction() const override { return true; }
  bool finds_squares() const override { return true; }

  ClientOutcome train(const ClientTask& task) override {
    QuasiNewtonMemory memory = rule_.memory_of(task.state);
    if (!rule_.keeps_pairs()) return descend(task, memory, round_pairs_);
    KeptPairs pairs = rule_.kept_pairs(memory);
    return descend(task, memory, pairs);
  }

  bool trains_side_by_side() const override { return true; }
  std::unique_ptr<CohortUpdate> cohort_update(CohortTraining& cohorts,
                                              const ParameterLayout& layout) override {
    return std::make_unique<QuasiNewtonCohort>(options_, rule_, layout.n_params(), cohorts);
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

  // The place of a gradient that no pair keeps; the last one may stand where the model was.
  GradientRecord place_of_loose(std::span<float> row, bool is_last) {
    if (in_factors_) return {};
    return GradientRecord(is_last && options_.weight_decay == 0 ? row : std::span(loose_));
  }

  // The gradient of the loss and the L2 penalty.
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
    const int64_t cost = model_.record_product_cost(LocalUpdate::steps().work().batch);
    return options_.weight_decay == 0 && cost > 0 && cost < model_.n_params();
  }

  StepOptions options_;
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
