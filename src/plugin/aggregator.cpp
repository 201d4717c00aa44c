// Aggregators of the user's own: what they weigh, and the columns that they make of updates.
#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/index.hpp"
#include "hanse/base/text.hpp"
#include "hanse/plugin/rules.hpp"
#include "library.hpp"

namespace hanse {

namespace {

AggregatorNeeds needs_of(const PluginRule& rule, const HanseNeeds& said) {
  AggregatorNeeds needs{.sizes = true, .layers = said.layers != 0};
  for_each_told<RoundReport>([&](const auto& row) {
    if (row.said) needs.*row.asked = said.*row.said != 0;
  });
  needs.gram = needs.gram || needs.layers;
  needs.directions = needs.gram && said.columns == 0;
  needs.late = said.late != 0 || needs.rates || (needs.gram && needs.norms);
  rule.require_function(rule.api().mix != nullptr || said.columns == 2, "mix");
  if (said.columns == 0) return needs;
  rule.require_function(rule.api().columns != nullptr, "columns");
  if (needs.layers) rule.refuse("columns() makes one step of all layers, which needs() asks for");
  needs.columns = needs.own_columns = needs.rejects = true;
  needs.norms = needs.late = true;  // they tell which updates are finite
  return needs;
}

HanseReport view_of(RoundReport report, std::span<const double> norms) {
  const auto k = std::ssize(report.clients);
  const std::size_t square = to_index(k * k);
  report.norms = norms;
  return with_told(
      report,
      HanseReport{
          .size = sizeof(HanseReport),
          .round = report.round,
          .k = k,
          .layers = report.gram.empty() ? 1 : static_cast<int64_t>(report.gram.size() / square),
          .clients = report.clients.data(),
          .lambda = report.lambda.data()});
}

class OwnAggregator final : public Aggregator {
 public:
  OwnAggregator(const RuleSource& source, int64_t clients)
      : rule_(source, {.kind = HANSE_AGGREGATOR, .clients = clients}) {
    const HanseNeeds said = rule_.needs();
    needs_ = needs_of(rule_, said);
    hears_norms_ = !needs_.columns || said.norms != 0;
    weighs_ = said.columns != 2;
  }

  AggregatorNeeds needs() const override { return needs_; }

  Mix mix(const RoundReport& report) override {
    const HanseReport view =
        view_of(report, hears_norms_ ? report.norms : std::span<const double>());
    Mix mix{.coefficients = std::vector<double>(to_index(view.k * view.layers), 0.0)};
    if (!weighs_) return by_columns(report.norms, shares_of_finite(report));
    rule_.require(rule_.api().mix(rule_.rule(), &view, mix.coefficients.data()));
    for (std::size_t i = 0; i < mix.coefficients.size(); ++i) {
      const double one = mix.coefficients[i];
      if (std::isfinite(one) && (one >= 0 || needs_.gram)) continue;
      if (needs_.columns && !std::isfinite(report.norms[i])) continue;
      rule_.refuse(fmt::format("mix() gives client {} the coefficient {} in round {}",
                               report.clients[i % report.clients.size()], number_text(one),
                               report.round));
    }
    if (needs_.columns) return by_columns(report.norms, mix.coefficients);
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

  void add_columns(Columns& columns) const override {
    if (!needs_.columns) return;
    columns.add_to_rounds([this] { return Metrics{{"rejected", rejected_}}; });
  }

 private:
  static std::vector<double> shares_of_finite(const RoundReport& report) {
    std::vector<double> shares(report.clients.size());
    double sum = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      if (!std::isfinite(report.norms[i])) continue;
      shares[i] = report.lambda[i] * report.draw_weights[i];
      sum += shares[i];
    }
    for (double& one : shares) one = sum > 0 ? one / sum : 0;
    return shares;
  }

  // The finite updates as they are, with their weights; no step where all weights are 0.
  Mix by_columns(std::span<const double> norms, std::span<const double> weights) {
    ColumnMix mix{.rule = {.kind = ColumnKind::kOwn}};
    bool counts = false;
    for (std::size_t i = 0; i < norms.size(); ++i) {
      if (!std::isfinite(norms[i])) continue;
      mix.weights.push_back(weights[i]);
      mix.map.resize(mix.map.size() + norms.size());
      mix.map[mix.map.size() - norms.size() + i] = 1;
      counts = counts || weights[i] != 0;
    }
    rejected_ = static_cast<double>(norms.size() - mix.weights.size());
    Mix found{.direction = {.dropped = static_cast<int64_t>(rejected_)}};
    if (!counts) return found;
    mix.n = std::ssize(mix.weights);
    found.columns = std::move(mix);
    return found;
  }

  void visit(StateFields& fields) override { rule_.visit(fields); }

  PluginRule rule_;
  AggregatorNeeds needs_;
  bool hears_norms_ = true;
  bool weighs_ = true;  // by mix()
  double rejected_ = 0;
};

class OwnColumns final : public ColumnFunction {
 public:
  OwnColumns(const RuleSource& source, int64_t clients)
      : source_(source), clients_(clients), rule_(make()) {}

  void begin(int64_t round, const State& state) override {
    round_ = round;
    if (state.arrays().empty()) return;
    rule_ = make();  // what columns() has left behind is nobody's state
    StateFields fields(state);
    rule_->visit(fields);
  }

  void step(std::span<const double> values, std::span<const double> weights,
            std::span<double> out) override {
    const HanseColumns block{.size = sizeof(HanseColumns),
                             .k = std::ssize(weights),
                             .width = std::ssize(out),
                             .rows = values.data(),
                             .weights = weights.data()};
    rule_->require(rule_->api().columns(rule_->rule(), &block, out.data()));
    const auto wrong = std::ranges::find_if(out, [](double one) { return !std::isfinite(one); });
    if (wrong == out.end()) return;
    rule_->refuse(fmt::format("columns() gives {} in round {}", number_text(*wrong), round_));
  }

 private:
  std::unique_ptr<PluginRule> make() const {
    return std::make_unique<PluginRule>(source_,
                                        HanseCreate{.kind = HANSE_AGGREGATOR, .clients = clients_});
  }

  RuleSource source_;
  int64_t clients_;
  std::unique_ptr<PluginRule> rule_;
  int64_t round_ = 0;
};

}  // namespace

std::unique_ptr<Aggregator> make_own_aggregator(const RuleSource& source, int64_t clients) {
  return std::make_unique<OwnAggregator>(source, clients);
}

std::unique_ptr<ColumnFunction> make_own_columns(const RuleSource& source, int64_t clients) {
  return std::make_unique<OwnColumns>(source, clients);
}

}  // namespace hanse
