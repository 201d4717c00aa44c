#include "hanse/plugin/rules.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/index.hpp"
#include "hanse/base/text.hpp"
#include "library.hpp"

namespace hanse {

namespace {

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

class OwnAttack final : public Attack {
 public:
  explicit OwnAttack(const RuleSource& source) : rule_(source, {.kind = HANSE_ATTACK}) {
    rule_.require_function(rule_.api().attack != nullptr, "attack");
    sees_last_ = rule_.needs().last != 0;
  }

  bool sees_last() const override { return sees_last_; }

  AttackRow decide(const AttackRound& round) override {
    const HanseHonest view{.size = sizeof(HanseHonest),
                           .round = round.round,
                           .honest = static_cast<int64_t>(round.honest),
                           .byzantine = static_cast<int64_t>(round.byzantine),
                           .gram = round.gram.entries.data(),
                           .rows = static_cast<int64_t>(round.gram.n)};
    AttackRow row{.coefficients = std::vector<double>(round.gram.n),
                  .strength = std::numeric_limits<double>::quiet_NaN()};
    rule_.require(rule_.api().attack(rule_.rule(), &view, row.coefficients.data()));
    for (const double one : row.coefficients) {
      if (std::isfinite(one)) continue;
      rule_.refuse(fmt::format("attack() gives the coefficient {} in round {}", number_text(one),
                               round.round));
    }
    return row;
  }

 private:
  void visit(StateFields& fields) override { rule_.visit(fields); }

  PluginRule rule_;
  bool sees_last_ = false;
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

std::unique_ptr<ServerOptimizer> make_own_optimizer(const RuleSource& source, int64_t clients) {
  return std::make_unique<OwnOptimizer>(source, clients);
}

std::unique_ptr<Attack> make_own_attack(const RuleSource& source) {
  return std::make_unique<OwnAttack>(source);
}

OwnMetric make_own_metric(const std::string& path) {
  const auto rule = std::make_shared<PluginRule>(
      RuleSource{.section = "evaluate", .file = {.path = path}, .python = path.ends_with(".py")},
      HanseCreate{.kind = HANSE_METRIC});
  rule->require_function(rule->api().measure != nullptr, "measure");
  return [rule, columns = std::vector<std::string>()](const EvaluationView& clients,
                                                      const Names& names) mutable {
    std::vector<std::string> texts;
    std::vector<const char*> labels;
    const EvaluationTable& table = clients.table();
    for (std::size_t i = clients.first(); i < clients.first() + clients.size(); ++i) {
      const int64_t client = table.client(i);
      texts.push_back(names.empty() ? std::to_string(client) : std::string(names.at(client)));
    }
    std::array<std::vector<double>, 6> rooms;
    std::size_t room = 0;
    const auto numbers = [&](const NumberColumn& column) {
      return clients.numbers(column, rooms[room++]).data();
    };
    const auto own = [&](Score score) { return numbers(table.scores(ScoresOf::kOwn, score)); };
    for (const std::string& text : texts) labels.push_back(text.c_str());
    const HanseClients view{.size = sizeof(HanseClients),
                            .clients = std::ssize(texts),
                            .names = labels.data(),
                            .samples = own(Score::kSamples),
                            .loss = own(Score::kLoss),
                            .accuracy = own(Score::kAccuracy),
                            .auroc = own(Score::kAuroc),
                            .train_samples = numbers(table.train_samples()),
                            .train_loss = numbers(table.train_loss())};
    Metrics metrics;
    rule->require(rule->api().measure(rule->rule(), &view, &metrics, add_metric));
    auto found = columns_of(*rule, metrics);
    if (columns.empty()) columns = found;
    if (found != columns) rule->refuse("the metric has other names than in the evaluation before");
    return metrics;
  };
}

}  // namespace hanse
