#include "hanse/run/replay.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hanse/base/error.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/job.hpp"

namespace hanse {

namespace {

using Json = nlohmann::json;

const Json& field(const Json& object, const std::string& name, const std::string& where) {
  if (!object.is_object() || !object.contains(name)) {
    throw InvalidArgument(fmt::format("field '{}' is missing", name), where);
  }
  return object.at(name);
}

double number(const Json& value, const std::string& where) {
  if (!value.is_number() || !std::isfinite(value.get<double>())) {
    throw InvalidArgument(fmt::format("{} is not a finite number", value.dump()), where);
  }
  return value.get<double>();
}

// A number of items, each >= `low`, from an array of `expected` of them.
std::vector<double> numbers(const Json& object, const std::string& name, std::size_t expected,
                            double low, const std::string& where) {
  const Json& array = field(object, name, where);
  const std::string here = where + "." + name;
  if (!array.is_array() || array.size() != expected) {
    throw InvalidArgument(fmt::format("expected an array of {} numbers", expected), here);
  }
  std::vector<double> values;
  for (const Json& item : array) {
    values.push_back(number(item, here));
    if (!(values.back() >= low)) {
      throw InvalidArgument(fmt::format("{} is below {}", values.back(), low), here);
    }
  }
  return values;
}

int64_t integer(const Json& value, int64_t low, int64_t high, const std::string& where) {
  if (!value.is_number_integer() || value.get<int64_t>() < low || value.get<int64_t>() >= high) {
    throw InvalidArgument(fmt::format("{} is no integer in [{}, {})", value.dump(), low, high),
                          where);
  }
  return value.get<int64_t>();
}

std::vector<int64_t> participants(const Json& round, int64_t clients, const std::string& where) {
  if (!round.contains("participants")) {
    std::vector<int64_t> all(static_cast<std::size_t>(clients));
    std::iota(all.begin(), all.end(), int64_t{0});
    return all;
  }
  std::vector<int64_t> ids;
  const Json& array = round.at("participants");
  if (!array.is_array() || array.empty()) {
    throw InvalidArgument("expected an array of client ids", where + ".participants");
  }
  for (const Json& item : array) {
    ids.push_back(integer(item, 0, clients, where + ".participants"));
  }
  auto sorted = ids;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    throw InvalidArgument(fmt::format("client {} stands twice", *twice), where + ".participants");
  }
  return ids;
}

// The rule's options, set in a job as a job file would.
void set_options(const Json& rule, Job& job) {
  if (!rule.is_object()) throw InvalidArgument("expected an object of options", "rule");
  for (const auto& [key, value] : rule.items()) {
    job.table.set(key, value.is_string() ? value.get<std::string>() : value.dump(), "rule." + key);
  }
}

std::string to_text(const Json& value);

std::string join_items(const Json& value) {
  std::string text;
  for (const Json& item : value) text += (text.empty() ? "" : ", ") + to_text(item);
  return text;
}

// JSON with 17 significant digits a number: each double parses back to itself.
std::string to_text(const Json& value) {
  if (value.is_number_float()) return fmt::format("{:.17g}", value.get<double>());
  if (value.is_array()) return fmt::format("[{}]", join_items(value));
  if (!value.is_object()) return value.dump();
  std::string text;
  for (const auto& [key, item] : value.items()) {
    text += (text.empty() ? "\"" : ", \"") + key + "\": " + to_text(item);
  }
  return "{" + text + "}";
}

constexpr int64_t kLongestDecision = 10000;  // clients

// A field's numbers, or `absent` for everybody.
std::vector<double> numbers_or(const Json& round, const std::string& name, std::size_t expected,
                               double absent, const std::string& where) {
  if (!round.contains(name)) return std::vector<double>(expected, absent);
  return numbers(round, name, expected, 0, where);
}

// Sizes as shares of the participants' sum; equal shares when the trace has none and the rule does
// not need them.
std::vector<double> shares_of_sizes(const Json& round, std::size_t count, bool needed,
                                    const std::string& where) {
  auto sizes = needed ? numbers(round, "sizes", count, 0, where)
                      : numbers_or(round, "sizes", count, 1, where);
  const double sum = std::accumulate(sizes.begin(), sizes.end(), 0.0);
  if (!(sum > 0)) throw InvalidArgument("sizes sum to 0", where + ".sizes");
  for (double& size : sizes) size /= sum;
  return sizes;
}

Json replay_round(const Json& round, int64_t t, int64_t clients, double absent_weight,
                  Aggregator& rule) {
  const auto where = fmt::format("rounds[{}]", t - 1);
  if (!round.is_object()) throw InvalidArgument("expected an object", where);
  const auto ids = participants(round, clients, where);
  const auto lambda = shares_of_sizes(round, ids.size(), rule.needs().sizes, where);
  const auto draw_weights = numbers_or(round, "draw_weights", ids.size(), absent_weight, where);
  std::vector<double> losses;
  if (rule.needs().losses) losses = numbers(round, "losses", ids.size(), -INFINITY, where);
  std::vector<double> norms;
  if (rule.needs().norms) norms = numbers(round, "norms", ids.size(), 0, where);
  Mix mix;
  try {
    mix = rule.mix({.round = t,
                    .clients = ids,
                    .lambda = lambda,
                    .draw_weights = draw_weights,
                    .losses = losses});
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(error.what(), where);
  }
  const double scale = rule.scale(norms);
  for (double& weight : mix.coefficients) weight *= scale;
  Json result = {{"weights", mix.coefficients}, {"step", 1.0}};
  if (!mix.response.empty()) result["response"] = mix.response;
  if (clients <= kLongestDecision) {
    const auto decision = rule.decision();
    if (!decision.empty()) result["decision"] = decision;
  }
  return result;
}

Json replay_aggregator(const Json& trace, const Job& job, double participation) {
  const int64_t clients = integer(field(trace, "clients", "trace"), 1, int64_t{1} << 40, "clients");
  const auto rule = make_aggregator(job, clients, participation);
  const double absent_weight = job.aggregator.kind == "aaggff-d" ? 1 / participation : 1;
  Json result = {{"rounds", Json::array()}};
  const Json& rounds = field(trace, "rounds", "trace");
  if (!rounds.is_array()) throw InvalidArgument("expected an array of rounds", "rounds");
  for (const Json& round : rounds) {
    const auto t = static_cast<int64_t>(result["rounds"].size()) + 1;
    result["rounds"].push_back(replay_round(round, t, clients, absent_weight, *rule));
  }
  return result;
}

// p [N, N] as N rows.
Json rows_of(std::span<const double> weights, std::size_t n) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < weights.size(); i += n) {
    rows.push_back(std::vector<double>(weights.begin() + static_cast<std::ptrdiff_t>(i),
                                       weights.begin() + static_cast<std::ptrdiff_t>(i + n)));
  }
  return rows;
}

// losses [N, N] of a round, each in [0, 1] after online.loss-scale.
std::vector<double> peer_losses(const Json& round, std::size_t n, double scale,
                                const std::string& where) {
  const Json& rows = field(round, "losses", where);
  const std::string here = where + ".losses";
  if (!rows.is_array() || rows.size() != n) {
    throw InvalidArgument(fmt::format("expected an array of {} rows", n), here);
  }
  std::vector<double> losses;
  for (const Json& row : rows) {
    for (const double loss : numbers({{"losses", row}}, "losses", n, -INFINITY, where)) {
      try {
        losses.push_back(unit_loss(loss, scale));
      } catch (const InvalidArgument& error) {
        throw InvalidArgument(error.what(), here);
      }
    }
  }
  return losses;
}

constexpr int64_t kMostNodes = 10000;

Json replay_experts(const Json& trace, const Job& job) {
  const int64_t nodes = integer(field(trace, "nodes", "trace"), 1, kMostNodes + 1, "nodes");
  const auto n = static_cast<std::size_t>(nodes);
  const Json& rounds = field(trace, "rounds", "trace");
  if (!rounds.is_array()) throw InvalidArgument("expected an array of rounds", "rounds");
  const auto count = std::max<int64_t>(1, static_cast<int64_t>(rounds.size()));
  const auto rule = make_experts(job, nodes, job.online.horizon > 0 ? job.online.horizon : count);
  std::vector<double> weights(n * n);
  Json result = {{"rounds", Json::array()}};
  for (const Json& round : rounds) {
    const auto where = fmt::format("rounds[{}]", result["rounds"].size());
    if (!round.is_object()) throw InvalidArgument("expected an object", where);
    auto ids = participants(round, nodes, where);
    std::sort(ids.begin(), ids.end());
    rule->observe(peer_losses(round, n, job.online.loss_scale, where));
    rule->weigh(ids, weights);
    result["rounds"].push_back({{"weights", rows_of(weights, n)}});
  }
  return result;
}

// The share of clients in a round: a field of the rule, since a trace has no sampler.
double take_participation(Json& rule) {
  if (!rule.is_object() || !rule.contains("participation")) return 1;
  const double participation = number(rule.at("participation"), "rule.participation");
  if (!(participation > 0 && participation <= 1)) {
    throw InvalidArgument(fmt::format("{} is not in (0, 1]", participation), "rule.participation");
  }
  rule.erase("participation");
  return participation;
}

}  // namespace

std::string replay(const std::string& trace) {
  const Json parsed = Json::parse(trace, nullptr, false);
  if (parsed.is_discarded()) throw InvalidArgument("the trace is not JSON", "trace");
  Job job;
  Json rule = field(parsed, "rule", "trace");
  const double participation = take_participation(rule);
  set_options(rule, job);
  if (rule.contains("online.kind")) return to_text(replay_experts(parsed, job)) + "\n";
  if (!rule.contains("aggregator.kind")) {
    throw InvalidArgument("no rule that can be replayed", "rule",
                          "name an aggregator.kind: " + join(known_names("aggregator.kind"), ", ") +
                              "; or an online.kind: " + join(known_names("online.kind"), ", "));
  }
  return to_text(replay_aggregator(parsed, job, participation)) + "\n";
}

}  // namespace hanse
