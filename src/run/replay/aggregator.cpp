#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "families.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/products.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/aggregators.hpp"
#include "hanse/kinds/own_rules.hpp"
#include "hanse/protocol/checked_rules.hpp"
#include "rows.hpp"
#include "told_fields.hpp"

namespace hanse {

namespace {

constexpr int64_t kLongestDecision = 10000;  // clients

// What holds for all rounds of a trace.
struct Setting {
  int64_t clients;
  double absent_weight;  // of the draw, where a round has none
  double samples;        // of all clients; 0: shares are the participants'
  int64_t told_clients;  // that the trace names; 0: none
  const ClientOptions& client;
};

// As numpy computes X X^T: relative to the lengths of both updates.
constexpr double kRounding = 1e-9;

// Appends a [k, k] matrix that is symmetric up to rounding to `all`: the mean of both halves.
void read_matrix(const Json& value, std::size_t k, const std::string& where,
                 std::vector<double>& all) {
  if (!value.is_array() || value.size() != k) {
    throw InvalidArgument(fmt::format("expected {} rows of {} numbers", k, k), where);
  }
  const std::size_t begin = all.size();
  for (std::size_t i = 0; i < k; ++i) {
    const auto row = numbers(value[i], k, -INFINITY, fmt::format("{}[{}].row", where, i));
    all.insert(all.end(), row.begin(), row.end());
  }
  for (std::size_t i = 0; i < k; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      double& lower = all[begin + i * k + j];
      double& upper = all[begin + j * k + i];
      const double mean = lower + (upper - lower) / 2;
      const double off = std::abs(upper - lower);
      const double lengths = std::sqrt(std::abs(all[begin + i * k + i] * all[begin + j * k + j]));
      lower = upper = mean;
      if (off <= kRounding * lengths) continue;
      throw InvalidArgument(fmt::format("entries [{}][{}] and [{}][{}] differ", i, j, j, i), where,
                            "inner products are symmetric");
    }
  }
}

// Reads [[K x K]], or a list of such, one a layer.
std::vector<double> read_gram(const Json& round, std::size_t& k, const std::string& where) {
  const Json& gram = field(round, "gram", where);
  const auto is_row = [](const Json& value) {
    return value.is_array() && !value.empty() && value[0].is_array();
  };
  if (!is_row(gram)) throw InvalidArgument("expected rows of numbers", where + ".gram");
  std::vector<double> all;
  if (!is_row(gram[0])) {
    k = gram.size();
    read_matrix(gram, k, where + ".gram", all);
    return all;
  }
  k = gram[0].size();
  for (std::size_t layer = 0; layer < gram.size(); ++layer) {
    read_matrix(gram[layer], k, fmt::format("{}.gram[{}]", where, layer), all);
  }
  return all;
}

// The round's "sizes" [count]; 1 each when it has none and they are not `needed`.
std::vector<double> read_sizes(const Json& round, std::size_t count, bool needed,
                               const std::string& where) {
  if (needed || round.contains("sizes")) return numbers(round, "sizes", count, 0, where);
  return std::vector<double>(count, 1);
}

// The sizes as shares of `total`, or of their own sum when it is 0.
std::vector<double> shares_of_sizes(std::vector<double> sizes, double total,
                                    const std::string& where) {
  const double sum = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  if (!(sum > 0)) throw InvalidArgument("sizes sum to 0", where + ".sizes");
  for (double& size : sizes) size /= total > 0 ? total : sum;
  return sizes;
}

// The matrices have a row for each participant and, behind them, each absent client that counts.
void require_absent(const std::vector<int64_t>& absent, std::size_t participants, std::size_t rows,
                    const std::string& where) {
  if (rows == participants + absent.size()) return;
  throw InvalidArgument(
      fmt::format("expected {} rows, found {}", participants + absent.size(), rows),
      where + ".gram",
      fmt::format("{} participants, and the absent clients {{{}}} behind them", participants,
                  fmt::join(absent, ", ")));
}

// What the rule decides on the report of one round.
Mix mix_of(Aggregator& rule, const RoundReport& report, const std::string& where) {
  try {
    return rule.mix(report);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(where + ": " + error.what());
  }
}

// What a rule that works on inner products decides; its weights are [K], or [L, K] of layers.
Json describe_direction(const Mix& mix, std::size_t k) {
  const auto& all = mix.response.empty() ? mix.coefficients : mix.response;
  return {{"weights", all.size() == k ? Json(all) : to_rows(all, k)},
          {"squared_norm", mix.direction.squared_norm},
          {"ridge", mix.direction.ridge},
          {"scale", mix.direction.scale},
          {"dropped", mix.direction.dropped}};
}

// What client.rate = loss makes of the round's "losses" where it has no "rates"; else empty.
std::vector<double> rates_of_losses(const Json& round, const ClientOptions& client, std::size_t k,
                                    const std::string& where) {
  if (client.rate != LoweringRate::kLoss || round.contains("rates")) return {};
  auto rates = numbers(round, "losses", k, 0, where);
  for (double& rate : rates) rate = std::pow(rate, client.rate_power);
  return rates;
}

// How many of a matrix's rows are participants, where a rule brings one of its own: as many as the
// round's "participants", else as the trace's "clients", else all but the last.
std::size_t participants_among(const Json& round, std::size_t rows, const Setting& setting,
                               const std::string& where) {
  auto k = static_cast<std::size_t>(setting.told_clients);
  if (round.contains("participants")) {
    k = clients_in(round, "participants", setting.clients, where).size();
  } else if (setting.told_clients == 0) {
    k = rows - 1;
  }
  if (rows == k || rows == k + 1) return k;
  throw InvalidArgument(fmt::format("expected {} rows, or {}, found {}", k + 1, k, rows),
                        where + ".gram", "the extra row is the last");
}

// [K] the round's "permutation" of its participants; empty where it has none.
std::vector<int64_t> read_permutation(const Json& round, std::size_t k, const std::string& where) {
  if (!round.contains("permutation")) return {};
  std::vector<int64_t> permutation;
  std::vector<char> seen(k);
  for (const double number : numbers(round, "permutation", k, 0, where)) {
    const auto at = static_cast<std::size_t>(number);
    if (static_cast<double>(at) != number || at >= k || seen[at]) {
      throw InvalidArgument(fmt::format("{} is not the next place of a permutation", number),
                            where + ".permutation", fmt::format("each of 0 to {} once", k - 1));
    }
    seen[at] = 1;
    permutation.push_back(static_cast<int64_t>(at));
  }
  return permutation;
}

// The step of a rule by columns, which has mixed in this round.
Json describe_columns(const Mix& mix, const Rows& rows, int64_t t, const Aggregator& rule,
                      ColumnFunction* own) {
  if (own) {
    State state;
    rule.save(state);
    own->begin(t, state);
  }
  return {{"update", step_by_columns(mix, rows, own)}, {"dropped", mix.direction.dropped}};
}

// Who takes part in a round, and their updates or the products of these.
struct Updates {
  std::vector<int64_t> clients;
  Rows whole;  // of rules by columns
  std::vector<double> gram;
  std::size_t rows = 0;  // of the matrices
};

Updates read_updates(const Json& round, int64_t t, const std::string& where, const Setting& setting,
                     const Aggregator& rule) {
  const AggregatorNeeds needs = rule.needs();
  Updates told;
  if (round.value("participants", Json()) == Json::array()) return told;  // nobody was there
  if (needs.columns) {
    told.whole = read_rows(round, where);
    told.rows = told.whole.size();
    told.gram = gram_of_rows(told.whole);
  } else if (needs.gram) {
    told.gram = read_gram(round, told.rows, where);
    if (!needs.layers && told.gram.size() > told.rows * told.rows) {
      throw InvalidArgument("expected one matrix, not one a layer", where + ".gram");
    }
  }
  if ((needs.gram || needs.columns) && !needs.last_updates) {
    const bool extra = needs.extra_row != ExtraRow::kNone;
    told.clients.resize(extra ? participants_among(round, told.rows, setting, where) : told.rows);
    std::iota(told.clients.begin(), told.clients.end(), int64_t{0});
  } else {
    told.clients = clients_in(round, "participants", setting.clients, where);
  }
  if (needs.last_updates) {
    require_absent(rule.absent(t, told.clients), told.clients.size(), told.rows, where);
  }
  return told;
}

Json replay_round(const Json& round, int64_t t, const std::string& where, const Setting& setting,
                  Aggregator& rule, ColumnFunction* own) {
  const AggregatorNeeds needs = rule.needs();
  const Updates updates = read_updates(round, t, where, setting, rule);
  const std::size_t k = updates.clients.size();
  if (k == 0) return {{"weights", Json::array()}, {"step", 1.0}};  // nobody was there
  const auto sizes = read_sizes(round, k, needs.sizes, where);
  const auto lambda = shares_of_sizes(sizes, setting.samples, where);
  const std::vector<double> absent_weights(k, setting.absent_weight);
  const auto rates =
      needs.rates ? rates_of_losses(round, setting.client, k, where) : std::vector<double>();
  std::vector<double> squares;  // norms
  for (std::size_t i = 0; needs.columns && i < k; ++i) squares.push_back(updates.gram[i * k + i]);
  const auto permutation = read_permutation(round, k, where);
  OwnedReport<RoundReport> told(RoundReport{.round = t,
                                            .clients = updates.clients,
                                            .lambda = lambda,
                                            .samples = sizes,
                                            .norms = squares,
                                            .gram = updates.gram,
                                            .rates = rates,
                                            .permutation = permutation});
  read_told(round, k, needs, where, told);
  RoundReport report = told.report();
  if (report.draw_weights.empty()) report.draw_weights = absent_weights;
  const auto norms = report.norms;
  if (!needs.late) report.norms = {};
  Mix mix = mix_of(rule, report, where);
  if (needs.columns) return describe_columns(mix, updates.whole, t, rule, own);
  if (needs.gram) return describe_direction(mix, updates.rows);
  const double scale = rule.scale(report, norms);
  for (double& weight : mix.coefficients) weight *= scale;
  Json result = {{"weights", mix.coefficients}, {"step", 1.0}};
  if (!mix.response.empty()) result["response"] = mix.response;
  if (setting.clients > kLongestDecision) return result;
  const auto decision = rule.decision();
  if (!decision.empty()) result["decision"] = decision;
  return result;
}

// The share of clients in a round: a field of the rule, since a trace has no sampler.
double participation_of(const Json& rule) {
  if (!rule.contains("participation")) return 1;
  const double participation = number(rule.at("participation"), "rule.participation");
  if (!(participation > 0 && participation <= 1)) {
    throw InvalidArgument(fmt::format("{} is not in (0, 1]", participation), "rule.participation");
  }
  return participation;
}

}  // namespace

Json replay_aggregator(const Json& trace, const Job& job, bool checks) {
  const double participation = participation_of(trace.at("rule"));
  // Inner products show how many clients take part; nothing else depends on how many there are.
  const bool has_gram = trace.contains(Json::json_pointer("/rounds/0/gram")) ||
                        trace.contains(Json::json_pointer("/rounds/0/rows"));
  const bool counts = !has_gram || job.aggregator.absent == AbsentClients::kWindow;
  const int64_t clients = trace.contains("clients") || counts ? clients_of(trace) : 1;
  const auto make = [&] { return make_aggregator(job, clients, participation); };
  const auto rule = checks ? checked_aggregator("aggregator.kind = " + job.aggregator.kind, make,
                                                std::make_shared<int64_t>(0))
                           : make();
  std::unique_ptr<ColumnFunction> own;
  if (rule->needs().own_columns) {
    Job checked = job;
    checked.run.check_rules = checks;
    own = own_columns_of(checked, clients);
  }
  const bool by_samples = trace.contains("samples") && !rule->needs().gram;
  const Setting setting{
      .clients = clients,
      .absent_weight = aggregator_traits(job.aggregator).scaled_draws ? 1 / participation : 1,
      .samples = by_samples ? number(trace.at("samples"), "trace.samples") : 0,
      .told_clients = trace.contains("clients") ? clients : 0,
      .client = job.client};
  int64_t t = 0;
  return each_round(trace, [&](const Json& round, const std::string& where) {
    return replay_round(round, ++t, where, setting, *rule, own.get());
  });
}

}  // namespace hanse
