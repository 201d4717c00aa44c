#include <cmath>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/aggregators.hpp"
#include "json.hpp"

namespace hanse {

namespace {

constexpr int64_t kLongestDecision = 10000;  // clients

// What holds for all rounds of a trace.
struct Setting {
  int64_t clients;
  double absent_weight;  // of the draw, where a round has none
  double samples;        // of all clients; 0: shares are the participants'
};

Json replay_round(const Json& round, int64_t t, const Setting& setting, Aggregator& rule) {
  const auto where = fmt::format("rounds[{}]", t - 1);
  if (!round.is_object()) throw InvalidArgument("expected an object", where);
  const auto ids = participants(round, setting.clients, where);
  if (ids.empty()) return {{"weights", Json::array()}, {"step", 1.0}};  // nobody was there
  const auto lambda =
      shares_of_sizes(round, ids.size(), rule.needs().sizes, setting.samples, where);
  const auto draw_weights =
      numbers_or(round, "draw_weights", ids.size(), setting.absent_weight, where);
  std::vector<double> losses;
  if (rule.needs().losses) losses = numbers(round, "losses", ids.size(), -INFINITY, where);
  std::vector<double> norms;
  if (rule.needs().norms) norms = numbers(round, "norms", ids.size(), 0, where);
  const RoundReport report{
      .round = t, .clients = ids, .lambda = lambda, .draw_weights = draw_weights, .losses = losses};
  Mix mix = mix_of(rule, report, where);
  const double scale = rule.scale(report, norms);
  for (double& weight : mix.coefficients) weight *= scale;
  Json result = {{"weights", mix.coefficients}, {"step", 1.0}};
  if (!mix.response.empty()) result["response"] = mix.response;
  if (setting.clients <= kLongestDecision) {
    const auto decision = rule.decision();
    if (!decision.empty()) result["decision"] = decision;
  }
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

// Inner products show how many take part; nothing else depends on how many there are.
bool knows_gram(const Json& trace) {
  if (!trace.contains("rounds")) return false;
  const Json& rounds = rounds_of(trace);
  return !rounds.empty() && rounds[0].is_object() && rounds[0].contains("gram");
}

}  // namespace

Json replay_aggregator(const Json& trace, const Job& job) {
  const double participation = participation_of(trace.at("rule"));
  const bool counted = trace.contains("clients") || !knows_gram(trace);
  const int64_t clients = counted ? clients_of(trace) : 1;
  const auto rule = make_aggregator(job, clients, participation);
  if (rule->needs().gram) return replay_gram(trace, *rule);
  const Setting setting{
      .clients = clients,
      .absent_weight = aggregator_traits(job.aggregator).scaled_draws ? 1 / participation : 1,
      .samples = trace.contains("samples") ? number(trace.at("samples"), "trace.samples") : 0};
  Json result = {{"rounds", Json::array()}};
  for (const Json& round : rounds_of(trace)) {
    const auto t = static_cast<int64_t>(result["rounds"].size()) + 1;
    result["rounds"].push_back(replay_round(round, t, setting, *rule));
  }
  return result;
}

}  // namespace hanse
