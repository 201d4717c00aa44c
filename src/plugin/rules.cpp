#include "hanse/plugin/rules.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/index.hpp"
#include "hanse/base/text.hpp"
#include "library.hpp"

namespace hanse {

namespace {

AggregatorNeeds needs_of(const PluginRule& rule) {
  HanseNeeds said{.size = sizeof(HanseNeeds)};
  if (rule.api().needs != nullptr) rule.require(rule.api().needs(rule.rule(), &said));
  AggregatorNeeds needs{.sizes = true,
                        .losses = said.losses != 0,
                        .norms = said.norms != 0,
                        .gram = said.gram != 0 || said.layers != 0,
                        .layers = said.layers != 0,
                        .rates = said.rates != 0};
  needs.directions = needs.gram;
  needs.late = said.late != 0 || needs.rates || (needs.gram && needs.norms);
  return needs;
}

template <class T>
const T* or_null(std::span<const T> values) {
  return values.empty() ? nullptr : values.data();
}

HanseReport view_of(const RoundReport& report, std::span<const double> norms) {
  const auto k = std::ssize(report.clients);
  const std::size_t square = to_index(k * k);
  return {.size = sizeof(HanseReport),
          .round = report.round,
          .k = k,
          .layers = report.gram.empty() ? 1 : static_cast<int64_t>(report.gram.size() / square),
          .clients = report.clients.data(),
          .samples = or_null(report.samples),
          .lambda = or_null(report.lambda),
          .draw_weights = or_null(report.draw_weights),
          .losses = or_null(report.losses),
          .norms = or_null(norms),
          .gram = or_null(report.gram),
          .rates = or_null(report.rates),
          .staleness = or_null(report.staleness),
          .durations = or_null(report.durations)};
}

class OwnAggregator final : public Aggregator {
 public:
  OwnAggregator(const RuleSource& source, int64_t clients)
      : rule_(source, {.kind = HANSE_AGGREGATOR, .clients = clients}) {
    rule_.require_function(rule_.api().mix != nullptr, "mix");
    needs_ = needs_of(rule_);
  }

  AggregatorNeeds needs() const override { return needs_; }

  Mix mix(const RoundReport& report) override {
    const HanseReport view = view_of(report, report.norms);
    Mix mix{.coefficients = std::vector<double>(to_index(view.k * view.layers), 0.0)};
    rule_.require(rule_.api().mix(rule_.rule(), &view, mix.coefficients.data()));
    for (std::size_t i = 0; i < mix.coefficients.size(); ++i) {
      const double one = mix.coefficients[i];
      if (std::isfinite(one) && (one >= 0 || needs_.gram)) continue;
      rule_.refuse(fmt::format("mix() gives client {} the coefficient {} in round {}",
                               report.clients[i % report.clients.size()], number_text(one),
                               report.round));
    }
    if (needs_.gram) {
      mix.direction.squared_norm = view_step(report.gram, mix.coefficients, view.k).squared_norm;
    }
    return mix;
  }

  double scale(const RoundReport& report, std::span<const double> norms) const override {
    double factor = 1;
    if (rule_.api().scale == nullptr) return factor;
    const HanseReport view = view_of(report, needs_.norms ? norms : std::span<const double>());
    rule_.require(rule_.api().scale(rule_.rule(), &view, &factor));
    if (std::isfinite(factor)) return factor;
    rule_.refuse(fmt::format("scale() gives {} in round {}", number_text(factor), report.round));
  }

 private:
  void visit(StateFields& fields) override { rule_.visit(fields); }

  PluginRule rule_;
  AggregatorNeeds needs_;
};

RandomStream& stream_of(void* stream) { return *static_cast<RandomStream*>(stream); }

HanseRandom random_of(RandomStream& stream) {
  return {.size = sizeof(HanseRandom),
          .stream = &stream,
          .uniform = [](void* s) { return stream_of(s).uniform(); },
          .normal = [](void* s) { return stream_of(s).normal(); },
          .below = [](void* s, int64_t bound) { return stream_of(s).below(bound); }};
}

class OwnSampler final : public ClientSampler {
 public:
  OwnSampler(const RuleSource& source, std::span<const double> samples, int64_t per_round)
      : ClientSampler(std::ssize(samples), per_round),
        rule_(source, {.kind = HANSE_SAMPLER,
                       .clients = std::ssize(samples),
                       .per_round = per_round,
                       .samples = samples.data()}),
        available_(clients()) {
    HanseNeeds said{.size = sizeof(HanseNeeds)};
    const HansePlugin& api = rule_.api();
    if (api.candidates != nullptr && api.needs != nullptr) {
      rule_.require(api.needs(rule_.rule(), &said));
    }
    by_losses_ = said.candidates != 0;
    rule_.require_function(by_losses_ ? api.draw_by_losses != nullptr : api.draw != nullptr,
                           by_losses_ ? "draw_by_losses" : "draw");
  }

  bool needs_candidates() const override { return by_losses_; }
  std::vector<int64_t> candidates(int64_t round, int64_t n, RandomStream& stream) override {
    candidates_.clear();
    losses_.clear();
    const auto there = all_available();
    if (there.empty() || n == 0) return {};
    std::vector<int64_t> named(there.size());
    int64_t k = 0;
    const HanseRandom random = random_of(stream);
    rule_.require(rule_.api().candidates(rule_.rule(), round, there.data(), std::ssize(there),
                                         &random, named.data(), &k));
    if (k < 0 || k > std::ssize(there)) {
      rule_.refuse(
          fmt::format("candidates() gives {} of {} clients in round {}", k, there.size(), round));
    }
    named.resize(to_index(k));
    check_clients("candidates", named, round);
    return named;
  }
  void take_candidates(std::span<const int64_t> clients, std::span<const double> losses) override {
    candidates_.assign(clients.begin(), clients.end());
    losses_.assign(losses.begin(), losses.end());
  }

  Draw draw(int64_t round, int64_t n, RandomStream& stream) override {
    round_ = round;
    const auto there = all_available();
    Draw draw;
    if (there.empty() || n == 0) return draw;
    draw.clients.resize(to_index(per_round()));
    draw.weights.resize(to_index(per_round()));
    int64_t k = 0;
    const HanseRandom random = random_of(stream);
    const HansePlugin& api = rule_.api();
    rule_.require(by_losses_ ? api.draw_by_losses(rule_.rule(), round, candidates_.data(),
                                                  losses_.data(), std::ssize(candidates_), &random,
                                                  draw.clients.data(), draw.weights.data(), &k)
                             : api.draw(rule_.rule(), round, there.data(), std::ssize(there),
                                        &random, draw.clients.data(), draw.weights.data(), &k));
    if (k < 0 || k > per_round()) {
      rule_.refuse(
          fmt::format("draw() gives {} clients in round {}, more than sampler.per-round = "
                      "{}",
                      k, round, per_round()));
    }
    if (k > n) {
      rule_.refuse(
          fmt::format("draw() gives {} clients in round {}, which asks for {}; the rule "
                      "cannot be told so",
                      k, round, n));
    }
    draw.clients.resize(to_index(k));
    draw.weights.resize(to_index(k));
    check(draw, round);
    draw.counts.assign(draw.size(), 1);
    draw.probabilities.assign(draw.size(), std::numeric_limits<double>::quiet_NaN());
    return draw;
  }

  // The rule draws in its own way: no draw can be imposed.
  Draw impose(int64_t, std::span<const int64_t>) override {
    rule_.refuse("a sampler of one's own cannot be given a draw");
  }

  double probability(int64_t) const override { return std::numeric_limits<double>::quiet_NaN(); }
  bool even() const override { return true; }

  void observe(const Draw& draw, const Feedback& feedback) override {
    if (rule_.api().observe == nullptr || draw.size() == 0) return;
    const HanseFeedback view{.size = sizeof(HanseFeedback),
                             .round = round_,
                             .k = static_cast<int64_t>(draw.size()),
                             .clients = draw.clients.data(),
                             .feedback = feedback.a.data(),
                             .losses = feedback.losses.data(),
                             .staleness = or_null(feedback.staleness),
                             .durations = or_null(feedback.durations)};
    rule_.require(rule_.api().observe(rule_.rule(), &view));
  }
  void observe_late(std::span<const int64_t> clients, std::span<const double> durations) override {
    if (rule_.api().observe_late == nullptr || clients.empty()) return;
    rule_.require(rule_.api().observe_late(rule_.rule(), clients.data(), durations.data(),
                                           std::ssize(clients)));
  }

  void toggle(std::span<const int64_t> changed) override {
    for (const int64_t client : changed) available_.toggle(client);
  }
  const ClientSet& available() const override { return available_; }

 private:
  std::vector<int64_t> all_available() const {
    std::vector<int64_t> there;
    for (int64_t i = 0; i < available_.size(); ++i) there.push_back(available_.select(i));
    return there;
  }

  void check_clients(const char* method, std::span<const int64_t> named, int64_t round) const {
    std::vector<int64_t> sorted(named.begin(), named.end());
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end()) {
      rule_.refuse(fmt::format("{}() gives client {} twice in round {}", method, *twice, round));
    }
    for (const int64_t client : named) {
      if (client >= 0 && client < clients() && available_.contains(client)) continue;
      rule_.refuse(fmt::format("{}() gives client {}, who is not available in round {}", method,
                               client, round));
    }
  }

  void check(const Draw& draw, int64_t round) const {
    check_clients("draw", draw.clients, round);
    for (std::size_t i = 0; i < draw.size(); ++i) {
      const int64_t client = draw.clients[i];
      if (std::isfinite(draw.weights[i]) && draw.weights[i] >= 0) continue;
      rule_.refuse(fmt::format("draw() gives client {} the weight {} in round {}", client,
                               number_text(draw.weights[i]), round));
    }
  }

  void visit(StateFields& fields) override {
    rule_.visit(fields);
    if (fields.loads()) available_ = ClientSet(clients());
  }

  PluginRule rule_;
  ClientSet available_;
  bool by_losses_ = false;
  int64_t round_ = 0;
  std::vector<int64_t> candidates_;  // of the round, and their losses
  std::vector<double> losses_;
};

class OwnOptimizer final : public ServerOptimizer {
 public:
  OwnOptimizer(const RuleSource& source, int64_t clients)
      : rule_(source, {.kind = HANSE_OPTIMIZER, .clients = clients}) {
    rule_.require_function(rule_.api().step != nullptr, "step");
  }

  void step(std::span<float> theta, std::span<const float> update, double lr, int64_t) override {
    rule_.require(
        rule_.api().step(rule_.rule(), lr, theta.data(), update.data(), std::ssize(theta)));
    for (std::size_t i = 0; i < theta.size(); ++i) {
      if (std::isfinite(theta[i])) continue;
      rule_.refuse(fmt::format("step() gives theta[{}] = {}", i, number_text(theta[i])));
    }
  }

 private:
  void visit(StateFields& fields) override { rule_.visit(fields); }

  PluginRule rule_;
};

void add_metric(void* sink, const char* name, double value) {
  static_cast<Metrics*>(sink)->emplace_back(printable(name), value);
}

// The names of an evaluation's numbers, which are columns.
std::vector<std::string> columns_of(const PluginRule& rule, const Metrics& metrics) {
  std::vector<std::string> names;
  for (const auto& [name, value] : metrics) {
    const bool is_plain = !name.empty() && name.find_first_of(",\"\n\r") == std::string::npos &&
                          std::find(names.begin(), names.end(), name) == names.end();
    if (!is_plain) {
      rule.refuse(fmt::format("a metric has the name '{}', which is no new column", name));
    }
    names.push_back(name);
  }
  return names;
}

}  // namespace

std::unique_ptr<Aggregator> make_own_aggregator(const RuleSource& source, int64_t clients) {
  return std::make_unique<OwnAggregator>(source, clients);
}

std::unique_ptr<ClientSampler> make_own_sampler(const RuleSource& source,
                                                std::span<const double> samples,
                                                int64_t per_round) {
  return std::make_unique<OwnSampler>(source, samples, per_round);
}

std::unique_ptr<ServerOptimizer> make_own_optimizer(const RuleSource& source, int64_t clients) {
  return std::make_unique<OwnOptimizer>(source, clients);
}

AttackRule make_own_attack(const RuleSource& source) {
  const auto rule = std::make_shared<PluginRule>(source, HanseCreate{.kind = HANSE_ATTACK});
  rule->require_function(rule->api().attack != nullptr, "attack");
  return [rule](const AttackRound& round) {
    const HanseHonest view{.size = sizeof(HanseHonest),
                           .round = round.round,
                           .honest = static_cast<int64_t>(round.honest),
                           .byzantine = static_cast<int64_t>(round.byzantine),
                           .gram = round.gram.entries.data()};
    AttackRow row{.coefficients = std::vector<double>(round.honest + 2),
                  .strength = std::numeric_limits<double>::quiet_NaN()};
    rule->require(rule->api().attack(rule->rule(), &view, row.coefficients.data()));
    for (const double one : row.coefficients) {
      if (std::isfinite(one)) continue;
      rule->refuse(fmt::format("attack() gives the coefficient {} in round {}", number_text(one),
                               round.round));
    }
    return row;
  };
}

OwnMetric make_own_metric(const std::string& path) {
  const auto rule = std::make_shared<PluginRule>(
      RuleSource{.section = "evaluate", .file = {.path = path}, .python = path.ends_with(".py")},
      HanseCreate{.kind = HANSE_METRIC});
  rule->require_function(rule->api().measure != nullptr, "measure");
  return [rule, columns = std::vector<std::string>()](std::span<const ClientEvaluation> clients,
                                                      const Names& names) mutable {
    std::vector<std::string> texts;
    std::vector<const char*> labels;
    std::vector<double> samples, loss, accuracy, auroc, train_samples, train_loss;
    for (const ClientEvaluation& client : clients) {
      texts.push_back(names.empty() ? std::to_string(client.client)
                                    : std::string(names.at(client.client)));
      samples.push_back(client.samples);
      loss.push_back(client.loss);
      accuracy.push_back(client.accuracy);
      auroc.push_back(client.auroc);
      train_samples.push_back(client.train_samples);
      train_loss.push_back(client.train_loss);
    }
    for (const std::string& text : texts) labels.push_back(text.c_str());
    const HanseClients view{.size = sizeof(HanseClients),
                            .clients = std::ssize(clients),
                            .names = labels.data(),
                            .samples = samples.data(),
                            .loss = loss.data(),
                            .accuracy = accuracy.data(),
                            .auroc = auroc.data(),
                            .train_samples = train_samples.data(),
                            .train_loss = train_loss.data()};
    Metrics metrics;
    rule->require(rule->api().measure(rule->rule(), &view, &metrics, add_metric));
    auto found = columns_of(*rule, metrics);
    if (columns.empty()) columns = found;
    if (found != columns) rule->refuse("the metric has other names than in the evaluation before");
    return metrics;
  };
}

}  // namespace hanse
