#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "hanse/base/error.hpp"
#include "hanse/run/execute.hpp"
#include "rules/aggregation/support.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Json = nlohmann::json;

Json replayed(const Json& rule, int64_t clients, const Json& rounds) {
  const Json trace{{"rule", rule}, {"clients", clients}, {"rounds", rounds}};
  Json result = Json::parse(replay(trace.dump()));
  EXPECT_EQ(result.at("rounds").size(), rounds.size());
  return result.at("rounds");
}

Json kind(const std::string& name) { return {{"aggregator.kind", name}}; }

Numbers numbers(const Json& array) { return array.get<Numbers>(); }

double phi(double z) { return std::erfc(-z / std::sqrt(2.0)) / 2; }

TEST(ReplayFair, FedAvg) {
  const Json rounds = {{{"participants", {4, 0, 2}}, {"sizes", {30, 10, 60}}},
                       {{"participants", {4, 0}}, {"sizes", {30, 10}}, {"draw_weights", {1, 6}}}};
  const Json result = replayed(kind("fedavg"), 5, rounds);
  expect_near(numbers(result[0]["weights"]), {0.3, 0.1, 0.6}, 1e-15);
  expect_near(numbers(result[1]["weights"]), {1.0 / 3, 2.0 / 3}, 1e-15);
  EXPECT_EQ(result[0]["step"], 1.0);
  EXPECT_FALSE(result[0].contains("decision"));
  EXPECT_FALSE(result[0].contains("response"));
  Json uniform = kind("fedavg");
  uniform["aggregator.weights"] = "uniform";
  expect_near(numbers(replayed(uniform, 5, rounds)[0]["weights"]), Numbers(3, 1.0 / 3), 1e-15);
  uniform["aggregator.estimator"] = "unbiased";  // 1/5 each, times the draw's weights
  expect_near(numbers(replayed(uniform, 5, rounds)[1]["weights"]), {0.2, 1.2}, 1e-15);
}

TEST(ReplayFair, EveryoneTakesPartWhenNothingIsSaid) {
  Json rule = kind("fedavg");
  rule["aggregator.weights"] = "uniform";
  const Json result = replayed(rule, 4, Json::array({Json::object()}));
  expect_near(numbers(result[0]["weights"]), Numbers(4, 0.25), 1e-15);
}

// G c = d with d the square roots of the losses, 2 and 3, or as given.
TEST(ReplayFair, AdaFed) {
  Json rule = kind("adafed");
  rule["client.rate-power"] = 0.5;
  const Json gram = {{2, 1}, {1, 3}};
  const Json result = replayed(
      rule, 2, {{{"gram", gram}, {"losses", {4, 9}}}, {{"gram", gram}, {"rates", {3, 4}}}});
  expect_near(numbers(result[0]["weights"]), {0.6, 0.8}, 1e-15);
  expect_near(numbers(result[1]["weights"]), {1, 1}, 1e-15);
  EXPECT_NEAR(result[0]["squared_norm"].get<double>(), 0.6 * 2 + 0.8 * 3, 1e-14);
}

TEST(ReplayFair, Afl) {
  Json rule = kind("afl");
  rule["aggregator.rate"] = 0.1;
  const Json result = replayed(rule, 3, {{{"losses", {1, 2, 6}}}, {{"losses", {0, 5, 5}}}});
  expect_near(numbers(result[0]["weights"]), {2.0 / 15, 7.0 / 30, 19.0 / 30}, 1e-15);
  expect_near(numbers(result[1]["weights"]), {0, 0.3, 0.7}, 1e-15);
  expect_near(numbers(result[1]["decision"]), {0, 0.3, 0.7}, 1e-15);
}

TEST(ReplayFair, QFedAvgScalesItsWeights) {
  Json rule = kind("qfedavg");
  rule["aggregator.q"] = 2;
  rule["aggregator.lipschitz"] = 10;
  Json rounds = {{{"losses", {1, 3}}, {"norms", {0.5, 0.25}}, {"sizes", {30, 10}}}};
  // h = 2 F 100 n + 10 F^2; the first client counts as three.
  const double h_0 = 2 * 100 * 0.5 + 10, h_1 = 2 * 3 * 100 * 0.25 + 10 * 9;
  const double sum = 3 * h_0 + h_1;
  expect_near(numbers(replayed(rule, 2, rounds)[0]["weights"]), {30 / sum, 90 / sum}, 1e-15);
  rounds[0].erase("sizes");
  rule["aggregator.weights"] = "uniform";
  const double h = h_0 + h_1;
  expect_near(numbers(replayed(rule, 2, rounds)[0]["weights"]), {10 / h, 90 / h}, 1e-15);
  rule.erase("aggregator.lipschitz");  // 1 / client.lr
  rule["client.lr"] = 0.1;
  expect_near(numbers(replayed(rule, 2, rounds)[0]["weights"]), {10 / h, 90 / h}, 1e-15);
}

TEST(ReplayFair, Term) {
  Json rule = kind("term");
  rule["aggregator.temperature"] = std::log(2.0);
  Json round = {{"participants", {7, 1}}, {"losses", {3, 1}}, {"sizes", {1, 6}}};
  expect_near(numbers(replayed(rule, 9, Json::array({round}))[0]["weights"]), {0.4, 0.6}, 1e-15);
  round.erase("sizes");
  rule["aggregator.weights"] = "uniform";
  expect_near(numbers(replayed(rule, 9, Json::array({round}))[0]["weights"]), {0.8, 0.2}, 1e-15);
}

TEST(ReplayFair, FedHeal) {
  const Json rule = kind("fedheal");
  const Json result = replayed(rule, 4,
                               {{{"participants", {2, 0}}, {"distances", {1, 3}}},
                                {{"participants", {1, 2}}, {"distances", {5, 2}}}});
  // delta = 0.4 d / sum d, then 0.6 delta + 0.4 d / (3 + 5 + 2): client 0 keeps its distance.
  expect_near(numbers(result[0]["weights"]), {0.35 / 0.9, 0.55 / 0.9}, 1e-15);
  const double w_1 = 0.25 + 0.4 * 0.5, w_2 = 0.35 + 0.6 * 0.1 + 0.4 * 0.2;
  expect_near(numbers(result[1]["weights"]), {w_1 / (w_1 + w_2), w_2 / (w_1 + w_2)}, 1e-15);
  const double all = 0.55 + w_1 + w_2 + 0.25;
  expect_near(numbers(result[1]["decision"]), {0.55 / all, w_1 / all, w_2 / all, 0.25 / all},
              1e-15);
}

// Two clients: the minimum over p = (1 - s, s) by hand.
TEST(ReplayFair, AaggffSWithItsDefaults) {
  Json rule = kind("aaggff-s");
  const Json rounds = {{{"participants", {1, 0}}, {"losses", {3, 1}}}};
  const auto check = [&](double c1, double c2, double alpha, double beta) {
    const Json result = replayed(rule, 2, rounds)[0];
    const double r1 = c1 + (c2 - c1) * phi(0.5);   // x = 3/2: client 1
    const double r0 = c1 + (c2 - c1) * phi(-0.5);  // x = 1/2
    expect_near(numbers(result["response"]), {r1, r0}, 1e-15);
    const double growth = 1 + (r0 + r1) / 2;
    const double g0 = -r0 / growth;
    const double g1 = -r1 / growth;
    const double shift = 1 - beta * (g0 + g1) / 2;
    // The derivative by s: (g1 - g0) (shift + beta g.p) + alpha (2 s - 1) = 0.
    const double s = (alpha - (g1 - g0) * shift - beta * (g1 - g0) * g0) /
                     (2 * alpha + beta * (g1 - g0) * (g1 - g0));
    expect_near(numbers(result["weights"]), {s, 1 - s}, 1e-14);
    expect_near(numbers(result["decision"]), {1 - s, s}, 1e-14);
    EXPECT_EQ(result["step"], 1.0);
  };
  check(0, 0.5, 4, 0.5);  // c2 = 1/K, L = 1/2: alpha = 4 K L, beta = 1 / (4 L)
  rule["aggregator.c1"] = 0.25;
  rule["aggregator.c2"] = 1.5;  // L = 1.2
  check(0.25, 1.5, 9.6, 1 / 4.8);
  rule["aggregator.alpha"] = 7;
  rule["aggregator.beta"] = 0.3;
  check(0.25, 1.5, 7, 0.3);
}

TEST(ReplayFair, AaggffSVariants) {
  Json rule = kind("aaggff-s");
  rule["aggregator.cdf"] = "normal";
  const Json rounds(9, Json{{"losses", {2.15, 0.17, 0.41}}});
  expect_near(numbers(replayed(rule, 3, rounds)[8]["decision"]), {0.607, 0.170, 0.222}, 6e-4);
  rule["aggregator.variant"] = "reference";
  expect_near(numbers(replayed(rule, 3, rounds)[8]["decision"]), {0.225, 0.398, 0.377}, 6e-4);
}

// Two of ten: c2 = C = 0.2, w = 5, L = C + 2.
TEST(ReplayFair, AaggffDWithItsDefaults) {
  Json rule = kind("aaggff-d");
  rule["participation"] = 0.2;
  Json round = {{"participants", {8, 3}}, {"losses", {3, 1}}};
  const auto check = [&](double c1, double c2, double w0, double w1) {
    const Json result = replayed(rule, 10, Json::array({round}))[0];
    const double r0 = c1 + (c2 - c1) * phi(0.5);
    const double r1 = c1 + (c2 - c1) * phi(-0.5);
    expect_near(numbers(result["response"]), {r0, r1}, 1e-15);
    const double rbar = (r0 + r1) / 2;
    const double rate = std::sqrt(std::log(10.0) / 2) / (c2 / (1 + c1) + 10 * (c2 - c1) / (1 + c1));
    const double p0 = std::exp(rate * w0 * (r0 - rbar) / (1 + rbar));
    const double p1 = std::exp(rate * w1 * (r1 - rbar) / (1 + rbar));
    expect_near(numbers(result["weights"]),
                {p0 * w0 / (p0 * w0 + p1 * w1), p1 * w1 / (p0 * w0 + p1 * w1)}, 1e-15);
    Numbers decision(10, 1 / (8 + p0 + p1));
    decision[8] *= p0;
    decision[3] *= p1;
    expect_near(numbers(result["decision"]), decision, 1e-15);
  };
  check(0, 0.2, 5, 5);
  round["draw_weights"] = {4, 7.5};
  check(0, 0.2, 4, 7.5);
  rule["aggregator.c1"] = 0.3;
  rule["aggregator.c2"] = 0.8;
  check(0.3, 0.8, 4, 7.5);
}

// Without a participation it is 1: the exact gradient, c2 = 1, L = 1.
TEST(ReplayFair, AaggffDWithEveryone) {
  const Json result = replayed(kind("aaggff-d"), 2, {{{"losses", {3, 1}}}})[0];
  const double rate = std::sqrt(std::log(2.0) / 2) / 1.5;
  const double p = 1 / (1 + std::exp(rate * (phi(-0.5) - phi(0.5))));
  expect_near(numbers(result["weights"]), {p, 1 - p}, 1e-15);
}

// Rounds of a rule that needs inner products say by them how many take part.
Json replayed_products(const Json& rule, const Json& round) {
  const Json trace{{"rule", rule}, {"rounds", Json::array({round})}};
  return Json::parse(replay(trace.dump())).at("rounds")[0];
}

TEST(ReplayFair, FedMgda) {
  Json rule = kind("fedmgda+");
  const Json equal = {{"gram", {{4, 2}, {2, 9}}}};  // within 1/10 of 1/2, whatever the sizes
  expect_near(numbers(replayed_products(rule, equal)["weights"]), {0.5, 0.5}, 1e-15);
  rule["aggregator.weights"] = "samples";
  const Json round = {{"gram", {{4, 0}, {0, 9}}}, {"sizes", {1, 3}}};
  rule["aggregator.epsilon"] = 1;  // orthogonal unit vectors
  expect_near(numbers(replayed_products(rule, round)["weights"]), {0.5, 0.5}, 1e-15);
  rule["aggregator.epsilon"] = 0.1;  // 1/4 + 0.1 and 3/4 - 0.1
  const Json result = replayed_products(rule, round);
  expect_near(numbers(result["weights"]), {0.35, 0.65}, 1e-15);
  EXPECT_NEAR(result["squared_norm"].get<double>(), 0.545, 1e-15);
  EXPECT_EQ(result["ridge"], 0.0);
  EXPECT_EQ(result["dropped"], 0);
  // Both halves of a product may differ by rounding: their mean counts.
  const auto with_halves = [&](double below, double above) {
    const Json halves = {{"gram", {{4, above}, {below, 9}}}, {"sizes", {1, 3}}};
    return replayed_products(rule, halves)["squared_norm"].get<double>();
  };
  EXPECT_NEAR(with_halves(3, 3 + 2e-9), with_halves(3 + 1e-9, 3 + 1e-9), 1e-14);
  EXPECT_GT(with_halves(3, 3 + 2e-9), with_halves(3, 3) + 1e-11);
  expect_error<InvalidArgument>([&] { with_halves(3, 3 + 1e-8); },
                                {"[1][0] and [0][1] differ", "rounds[0].gram"});
  const Json silent = {{"gram", {{4, 0, 0}, {0, 0, 0}, {0, 0, 1}}}, {"sizes", {1, 1, 1}}};
  expect_near(numbers(replayed_products(rule, silent)["weights"]), {0.5, 0, 0.5}, 1e-15);
  EXPECT_EQ(replayed_products(rule, silent)["dropped"], 1);
}

// Orthogonal updates of lengths 2 and 1 and equal losses: 1/5 and 4/5 of them, of length
// sqrt(0.8), made as long as their mean, sqrt(1.25).
TEST(ReplayFair, FedLf) {
  const Json one = {{4, 0}, {0, 1}};
  const Json other = {{1, 0}, {0, 4}};
  const Json result = replayed_products(kind("fedlf"), {{"gram", one}, {"losses", {0.5, 0.5}}});
  expect_near(numbers(result["weights"]), {0.25, 1}, 1e-15);
  EXPECT_NEAR(result["squared_norm"].get<double>(), 1.25, 1e-15);
  const Json two = replayed_products(kind("fedlf"),
                                     {{"gram", Json::array({one, other})}, {"losses", {0.5, 0.5}}});
  expect_near(numbers(two["weights"][0]), {0.25, 1}, 1e-15);
  expect_near(numbers(two["weights"][1]), {1, 0.25}, 1e-15);
  Json reference = kind("fedlf");
  reference["aggregator.variant"] = "reference";  // 1/2 of each direction
  const Json equal = replayed_products(reference, {{"gram", one}, {"losses", {0.5, 0.5}}});
  const double weight = std::sqrt(1.25 / 2);
  expect_near(numbers(equal["weights"]), {weight / 2, weight}, 1e-15);
}

// In the second round the two of the first are absent and stand behind the participants. All
// vectors are orthogonal, scaled to the mean length of the participants', 2: 1/4 of each of the
// four.
TEST(ReplayFair, FedLfWithAbsentClients) {
  Json rule = kind("fedlf");
  rule["aggregator.absent"] = "window";
  const Json first = {{"participants", {3, 0}}, {"gram", {{4, 0}, {0, 1}}}, {"losses", {0.5, 0.5}}};
  Json second = {{"participants", {1, 2}}, {"losses", {0.5, 0.5}}};
  second["gram"] = {{1, 0, 0, 0}, {0, 9, 0, 0}, {0, 0, 100, 0}, {0, 0, 0, 0.01}};
  const Json result = replayed(rule, 4, {first, second});
  // The step has length 1 before it is made as long as the mean update, sqrt(10)/2.
  const double scale = std::sqrt(10.0) / 2;
  expect_near(numbers(result[1]["weights"]),
              {scale * 0.25 * 2, scale * 0.25 * 2 / 3, scale * 0.25 * 2 / 10, scale * 0.25 * 20},
              1e-14);
  second["gram"] = {{1, 0}, {0, 9}};
  expect_error<InvalidArgument>(
      [&] {
        replayed(rule, 4, {first, second});
      },
      {"expected 4 rows, found 2", "rounds[1].gram", "{0, 3}"});
}

TEST(ReplayFair, ErrorsOfInnerProducts) {
  const auto refuses = [](const std::string& name, const Json& round,
                          std::initializer_list<std::string> parts) {
    Json rule = kind(name);
    if (name == "fedmgda+") rule["aggregator.weights"] = "samples";
    expect_error<InvalidArgument>([&] { replayed_products(rule, round); }, parts);
  };
  const Json unit = {{1, 0}, {0, 1}};
  refuses("fedmgda+", {{"gram", unit}}, {"'sizes' is missing", "rounds[0]"});
  refuses("fedmgda+", {{"gram", unit}, {"sizes", {0, 0}}}, {"sum to 0", "rounds[0].sizes"});
  refuses("fedmgda+", {{"gram", Json::array({unit, unit})}, {"sizes", {1, 1}}},
          {"one matrix", "rounds[0].gram"});
  refuses("fedmgda+", {{"gram", {{1, 2}, {2, 1}}}, {"sizes", {1, 1}}},
          {"no Gram matrix", "rounds[0]"});
  refuses("fedlf", {{"gram", unit}}, {"'losses' is missing", "rounds[0]"});
  refuses("fedlf", {{"gram", {{1, 2}, {2, 1}}}, {"losses", {1, 2}}},
          {"no Gram matrix", "rounds[0]"});
}

TEST(ReplayFair, DecisionsUpToTenThousandClients) {
  Json rule = kind("aaggff-d");
  rule["participation"] = 0.001;
  const Json rounds = {{{"participants", {0, 9000}}, {"losses", {1, 2}}}};
  EXPECT_EQ(replayed(rule, 10000, rounds)[0]["decision"].size(), 10000U);
  EXPECT_FALSE(replayed(rule, 10001, rounds)[0].contains("decision"));
  EXPECT_EQ(replayed(rule, 1'000'000'000, rounds)[0]["weights"].size(), 2U);
}

// Every error is one line with the field's place in the trace.
TEST(ReplayFair, ErrorsNameTheField) {
  const Json two = {{"losses", {1, 2}}};
  const auto refuses = [](const Json& rule, int64_t clients, const Json& rounds,
                          std::initializer_list<std::string> parts) {
    const Json trace{{"rule", rule}, {"clients", clients}, {"rounds", rounds}};
    expect_error<InvalidArgument>([&] { replay(trace.dump()); }, parts);
  };
  const Json s = kind("aaggff-s");
  refuses(s, 2, Json::array({Json::object()}), {"'losses' is missing", "rounds[0]"});
  refuses(s, 2, {two, {{"losses", {1}}}}, {"array of 2 numbers", "rounds[1].losses"});
  refuses(s, 2, {{{"losses", {1, "x"}}}}, {"\"x\"", "rounds[0].losses"});
  refuses(s, 2, {{{"losses", {1, nullptr}}}}, {"finite", "rounds[0].losses"});
  refuses(s, 2, {{{"losses", {1, -2}}}}, {"-2", "participant 1", "rounds[0]"});
  refuses(s, 3, {{{"participants", {0, 2}}, {"losses", {1, 2}}}}, {"2 of 3 clients", "rounds[0]"});
  refuses(s, 2, {{{"participants", {0, 2}}, {"losses", {1, 2}}}}, {"2", "rounds[0].participants"});
  refuses(s, 2, {{{"participants", {1, 1}}, {"losses", {1, 2}}}},
          {"client 1", "twice", "rounds[0].participants"});
  refuses(s, 2, {5}, {"object", "rounds[0]"});
  refuses(s, 2, {{"losses", {1, 2}}}, {"array", "rounds"});
  refuses(s, 0, Json::array({two}), {"0", "clients"});
  refuses(kind("qfedavg"), 2, Json::array({two}), {"'sizes' is missing", "rounds[0]"});
  Json equal = kind("qfedavg");
  equal["aggregator.weights"] = "uniform";
  refuses(equal, 2, Json::array({two}), {"'norms' is missing", "rounds[0]"});
  refuses(equal, 2, {{{"losses", {1, 2}}, {"norms", {1, -1}}}}, {"-1", "rounds[0].norms"});
  refuses(kind("fedavg"), 2, Json::array({{{"sizes", {1, -1}}}}), {"-1", "rounds[0].sizes"});
  refuses(kind("fedavg"), 2, Json::array({{{"sizes", {0, 0}}}}), {"sum to 0", "rounds[0].sizes"});
  refuses(kind("fedavg"), 2, Json::array({{{"sizes", {1, 1}}, {"draw_weights", {1, -1}}}}),
          {"-1", "rounds[0].draw_weights"});
  expect_error<InvalidArgument>([] { replay("{"); }, {"not JSON"});
  expect_error<InvalidArgument>([] { replay(R"({"rule": {"aggregator.kind": "term"}})"); },
                                {"'clients' is missing"});
}

TEST(ReplayFair, ErrorsOfTheRule) {
  const auto refuses = [](Json rule, const std::string& key, const Json& value,
                          std::initializer_list<std::string> parts) {
    rule[key] = value;
    const Json trace{{"rule", rule}, {"clients", 2}, {"rounds", {{{"losses", {1, 2}}}}}};
    expect_error<InvalidArgument>([&] { replay(trace.dump()); }, parts);
  };
  refuses(kind("aaggff-s"), "aggregator.c1", 0.5, {"c1 0.5", "c2 0.5", "aggregator.c1"});
  refuses(kind("aaggff-s"), "aggregator.cdf", "cauchy", {"cauchy", "rule.aggregator.cdf"});
  refuses(kind("aaggff-s"), "participation", 0.5, {"every client", "0.5"});
  refuses(kind("aaggff-d"), "participation", 0, {"(0, 1]", "rule.participation"});
  refuses(kind("aaggff-d"), "participation", 1.5, {"(0, 1]", "rule.participation"});
  refuses(kind("aaggff-d"), "participation", "all", {"finite", "rule.participation"});
  refuses(kind("term"), "aggregator.temperature", 0, {"rule.aggregator.temperature"});
  refuses(kind("term"), "aggregator.temperatur", 1, {"aggregator.temperature"});
  refuses(kind("afl"), "aggregator.rate", -1, {"rule.aggregator.rate"});
  refuses(kind("qfedavg"), "aggregator.q", -0.5, {"rule.aggregator.q"});
  refuses(kind("aafl"), "aggregator.rate", 1, {"aafl", "afl"});
}

}  // namespace
}  // namespace hanse
