// Samplers replayed on recorded feedback: small cases by hand, and what is refused.
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "hanse/base/error.hpp"
#include "hanse/run/execute.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Json = nlohmann::json;
using Numbers = std::vector<double>;

constexpr double kTolerance = 1e-14;

// osmd with eta = 1 unless `options` say otherwise; `more` are fields of the trace.
Json trace(int64_t clients, const Json& rounds, const Json& options = Json::object(),
           const Json& more = Json::object()) {
  Json rule = {{"sampler.kind", "osmd"}, {"sampler.alpha", 0.1}, {"sampler.eta", 1}};
  rule.update(options);
  Json result = {{"rule", rule}, {"clients", clients}, {"rounds", rounds}};
  result.update(more);
  return result;
}

Json played(const Json& input) { return Json::parse(replay(input.dump())); }

void expect_numbers(const Json& found, const Numbers& expected) {
  const auto values = found.get<Numbers>();
  ASSERT_EQ(values.size(), expected.size()) << found;
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], kTolerance * std::max(1.0, expected[i])) << found;
  }
}

Numbers normalized(Numbers values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  for (double& value : values) value /= sum;
  return values;
}

void expect_refused(const Json& input, std::initializer_list<std::string> parts) {
  expect_error<InvalidArgument>([&] { replay(input.dump()); }, parts);
}

// p~ = p exp(eta a/(K^2 p^3)) with p = 1/3, K = 2: a = 4 log(f)/27 multiplies a client by f.
const double kDouble = 4 * std::log(2.0) / 27;
const double kTriple = 4 * std::log(3.0) / 27;

// `initial` are the clients' samples.
TEST(ReplaySampler, AFormulaWeighsSamplesAndFeedback) {
  const Json rounds = {{{"draws", {2, 0}}, {"feedback", {4, 1}}}};
  const Json input = {
      {"rule",
       {{"sampler.kind", "formula"}, {"sampler.formula", "n * a"}, {"sampler.replacement", false}}},
      {"clients", 3},
      {"initial", {1, 1, 2}},
      {"rounds", rounds}};
  const Json output = played(input);
  expect_numbers(output.at("rounds").at(0).at("probabilities"), {0.25, 0.25, 0.5});
  expect_numbers(output.at("rounds").at(0).at("coefficients"), {1.5, 1});
  expect_numbers(output.at("next"), {1 / 11.5, 2.5 / 11.5, 8 / 11.5});
}

// One draw of a sampler of two: K = 1 in the update, p~ = p exp(a/p^3) with p = 1/3.
TEST(ReplaySampler, ARoundMayAskForFewerDraws) {
  const Json rounds = {{{"draws", {2}}, {"feedback", {kDouble / 4}}, {"asked", 1}},
                       {{"draws", {1, 2}}, {"feedback", {0, 0}}}};
  const Json options = {{"sampler.alpha", 0.3}, {"sampler.per-round", 2}};
  const Json output = played(trace(3, rounds, options));
  expect_numbers(output.at("rounds").at(0).at("coefficients"), {3});
  expect_numbers(output.at("rounds").at(1).at("probabilities"), {0.25, 0.25, 0.5});
  Json other = rounds;
  other[0]["asked"] = 3;
  expect_refused(trace(3, other, options), {"rounds[0].asked"});
  other[0].erase("asked");
  expect_refused(trace(3, other, options), {"1 draws, expected 2"});
}

TEST(ReplaySampler, OsmdInClosedForm) {
  const Json rounds = {{{"draws", {2, 0}}, {"feedback", {kTriple, kDouble}}},
                       {{"draws", {1, 2}}, {"feedback", {0, 0}}}};
  const Json output = played(trace(3, rounds, {{"sampler.alpha", 0.3}}));
  const Json& first = output.at("rounds").at(0);
  expect_numbers(first.at("probabilities"), {1 / 3.0, 1 / 3.0, 1 / 3.0});
  expect_numbers(first.at("coefficients"), {1.5, 1.5});
  EXPECT_NEAR(first.at("loss_estimate"), (kDouble + kTriple) * 9 / 4, kTolerance);
  const Json& second = output.at("rounds").at(1);
  expect_numbers(second.at("probabilities"), {1 / 3.0, 1 / 6.0, 1 / 2.0});
  expect_numbers(second.at("coefficients"), {3, 1});
  EXPECT_EQ(second.at("loss_estimate"), 0);
  expect_numbers(output.at("next"), {1 / 3.0, 1 / 6.0, 1 / 2.0});
  // Floor 0.2: the others share 0.8 as 2 to 3.
  expect_numbers(played(trace(3, rounds, {{"sampler.alpha", 0.6}})).at("next"), {0.32, 0.2, 0.48});
}

TEST(ReplaySampler, ARepeatedDrawCountsTwice) {
  const Json twice = {{{"draws", {1, 1}}, {"feedback", {kDouble, kDouble}}}};
  const Json output = played(trace(3, twice));
  expect_numbers(output.at("next"), {1 / 6.0, 4 / 6.0, 1 / 6.0});
  expect_numbers(output.at("rounds").at(0).at("coefficients"), {1.5, 1.5});
  EXPECT_NEAR(output.at("rounds").at(0).at("loss_estimate"), kDouble * 9 / 2, kTolerance);
  // Gradients of two mini-batches: their a add up.
  const Json unlike = {{{"draws", {1, 1}}, {"feedback", {kDouble, kTriple}}}};
  expect_numbers(played(trace(3, unlike)).at("next"), {1 / 8.0, 6 / 8.0, 1 / 8.0});
  // The authors' code: one share of the gradient, two of the loss.
  const Json reference = played(trace(3, twice, {{"sampler.variant", "reference"}}));
  expect_numbers(reference.at("next"), {1 / 4.0, 2 / 4.0, 1 / 4.0});
  EXPECT_NEAR(reference.at("rounds").at(0).at("loss_estimate"), kDouble * 9 / 2, kTolerance);
}

// (1/p_(j) + K - j)/K with p_(j) among those left; the update is that of draws with replacement.
TEST(ReplaySampler, WithoutReplacement) {
  const Json rounds = {{{"draws", {3, 1, 0}}, {"feedback", {0.02, 0.03, 0.001}}}};
  const Json more = {{"initial", {0.1, 0.2, 0.3, 0.4}}};
  const Json output = played(trace(4, rounds, {{"sampler.replacement", false}}, more));
  const Json& round = output.at("rounds").at(0);
  expect_numbers(round.at("coefficients"), {(2.5 + 2) / 3, (3.0 + 1) / 3, 4.0 / 3});
  EXPECT_NEAR(round.at("loss_estimate"), (0.02 / 0.16 + 0.03 / 0.04 + 0.001 / 0.01) / 9,
              kTolerance);
  const Numbers next = normalized({0.1 * std::exp(0.001 / 9e-3), 0.2 * std::exp(0.03 / 72e-3), 0.3,
                                   0.4 * std::exp(0.02 / 576e-3)});
  expect_numbers(output.at("next"), next);
  const Json with = played(trace(4, rounds, {{"sampler.replacement", true}}, more));
  expect_numbers(with.at("rounds").at(0).at("coefficients"), {2.5 / 3, 5.0 / 3, 10.0 / 3});
  expect_numbers(with.at("next"), next);
}

TEST(ReplaySampler, TheFirstDistributionMayLieBelowTheFloor) {
  const Json rounds = {{{"draws", {0}}, {"feedback", {0}}}, {{"draws", {1}}, {"feedback", {0}}}};
  const Json output =
      played(trace(3, rounds, {{"sampler.alpha", 0.6}}, {{"initial", {0.9, 0.05, 0.05}}}));
  expect_numbers(output.at("rounds").at(0).at("probabilities"), {0.9, 0.05, 0.05});
  expect_numbers(output.at("rounds").at(0).at("coefficients"), {1 / 0.9});
  expect_numbers(output.at("rounds").at(1).at("probabilities"), {0.6, 0.2, 0.2});
  expect_numbers(output.at("rounds").at(1).at("coefficients"), {5});
}

TEST(ReplaySampler, ImportanceLabelsTheOutputAlone) {
  const Json rounds = {{{"draws", {2, 0}}, {"feedback", {kTriple, kDouble}}}};
  const Json plain = played(trace(3, rounds));
  EXPECT_FALSE(plain.contains("importance"));
  Json labelled = played(trace(3, rounds, Json::object(), {{"importance", {0.5, 0.25, 0.25}}}));
  expect_numbers(labelled.at("importance"), {0.5, 0.25, 0.25});
  labelled.erase("importance");
  EXPECT_EQ(labelled, plain);
}

// q = p over the available, in the estimate and the update; p stays the sampler's.
TEST(ReplaySampler, DrawsFromTheAvailable) {
  const Numbers initial{0.1, 0.2, 0.3, 0.4};
  const Json rounds = {
      {{"available", {3, 1, 2}}, {"draws", {1, 3}}, {"feedback", {0.01, 0.02}}},
      {{"available", {0, 2}}, {"draws", {0, 2}}, {"feedback", {5, 7}}},  // all who are there
      {{"draws", {0, 0}}, {"feedback", {0, 0}}}};
  const Json output = played(trace(4, rounds, Json::object(), {{"initial", initial}}));
  const Json& first = output.at("rounds").at(0);
  expect_numbers(first.at("probabilities"), initial);
  expect_numbers(first.at("coefficients"), {2.25, 1.125});
  const double q1 = 2.0 / 9, q3 = 4.0 / 9;
  EXPECT_NEAR(first.at("loss_estimate"), (0.01 / (q1 * q1) + 0.02 / (q3 * q3)) / 4, kTolerance);
  const Numbers next = normalized(
      {0.1, 0.2 * std::exp(0.01 / (4 * 0.04 * q1)), 0.3, 0.4 * std::exp(0.02 / (4 * 0.16 * q3))});
  expect_numbers(output.at("rounds").at(1).at("probabilities"), next);
  expect_numbers(output.at("rounds").at(1).at("coefficients"), {1, 1});
  const Json& third = output.at("rounds").at(2);  // nothing learnt; everyone is back
  expect_numbers(third.at("probabilities"), next);
  expect_numbers(third.at("coefficients"), {1 / (2 * next[0]), 1 / (2 * next[0])});
}

TEST(ReplaySampler, ARoundWithNobodyThere) {
  const Json rounds = {
      {{"draws", {2, 0}}, {"feedback", {kTriple, kDouble}}},
      {{"available", Json::array()}, {"draws", Json::array()}, {"feedback", Json::array()}},
      {{"draws", {1, 2}}, {"feedback", {0, 0}}}};
  const Json output = played(trace(3, rounds));
  EXPECT_EQ(output["rounds"][1]["coefficients"], Json::array());
  EXPECT_EQ(output["rounds"][1]["loss_estimate"], 0);
  expect_numbers(output["rounds"][2]["probabilities"], {1 / 3.0, 1 / 6.0, 1 / 2.0});
  expect_refused(trace(3, {{{"draws", Json::array()}, {"feedback", Json::array()}}},
                       {{"sampler.per-round", 2}}),
                 {"0 draws, expected 2", "rounds[0]"});
}

// Algorithm 5 with three experts, written out: alpha = 1/2, M = 4, K = 2, T = 3, A = 1/8.
TEST(ReplaySampler, AdaptiveOsmdStepByStep) {
  const Json options = {{"sampler.kind", "adaptive-osmd"},
                        {"sampler.alpha", 0.5},
                        {"sampler.a-max", 0.125},
                        {"sampler.horizon", 3},
                        {"sampler.per-round", 2}};
  const Json rounds = {{{"draws", {0, 3}}, {"feedback", {0.06, 0.12}}},
                       {{"draws", {3, 1}}, {"feedback", {0.05, 0.01}}}};
  const double eta = 2 * 0.125 / (64 * 0.125) * std::sqrt(2 * std::log(4.0) / 3);
  const double gamma = 0.125 * std::sqrt(16 / (3 * 0.125));
  Numbers theta{2 / 3.0, 2 / 9.0, 1 / 9.0};
  std::vector<Numbers> p(3, Numbers(4, 0.25));
  const Json output = played(trace(4, rounds, options));
  for (std::size_t t = 0; t < 2; ++t) {
    const Json& round = output.at("rounds").at(t);
    Numbers mixture(4), losses(3);
    for (std::size_t e = 0; e < 3; ++e) {
      for (std::size_t m = 0; m < 4; ++m) mixture[m] += theta[e] * p[e][m];
    }
    expect_numbers(round.at("probabilities"), mixture);
    for (std::size_t i = 0; i < 2; ++i) {
      const std::size_t m = rounds[t]["draws"][i];
      const double a = rounds[t]["feedback"][i];
      EXPECT_NEAR(round.at("coefficients").at(i), 1 / (2 * mixture[m]), kTolerance);
      for (std::size_t e = 0; e < 3; ++e) {
        losses[e] += a / (4 * p[e][m] * mixture[m]);
        p[e][m] *= std::exp(std::ldexp(eta, static_cast<int>(e)) * a /
                            (4 * p[e][m] * p[e][m] * mixture[m]));
      }
    }
    for (std::size_t e = 0; e < 3; ++e) {
      p[e] = normalized(p[e]);  // nobody reaches the floor of 1/8
      theta[e] *= std::exp(-gamma * losses[e]);
    }
    theta = normalized(theta);
    expect_numbers(round.at("experts"), theta);
  }
  EXPECT_NE(theta[0], 2 / 3.0);
  Json still = options;
  still["sampler.gamma"] = 0;
  expect_numbers(played(trace(4, rounds, still)).at("rounds").at(1).at("experts"),
                 {2 / 3.0, 2 / 9.0, 1 / 9.0});
}

TEST(ReplaySampler, FieldsOfARound) {
  const auto names = [](const Json& object) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : object.items()) keys.push_back(key);
    return keys;
  };
  const Json rounds = {{{"draws", {0, 1}}, {"feedback", {1, 1}}}};
  const Json osmd = played(trace(3, rounds));
  EXPECT_EQ(names(osmd), (std::vector<std::string>{"next", "rounds"}));
  EXPECT_EQ(names(osmd["rounds"][0]),
            (std::vector<std::string>{"coefficients", "loss_estimate", "probabilities"}));
  // One round, one expert: it has the weight 1.
  const Json adaptive = played(trace(
      3, rounds,
      {{"sampler.kind", "adaptive-osmd"}, {"sampler.a-max", "running"}, {"sampler.horizon", 1}}));
  EXPECT_EQ(adaptive["rounds"][0]["experts"], Json({1.0}));
  EXPECT_EQ(played(trace(3, Json::array()))["rounds"], Json::array());
}

TEST(ReplaySampler, KindsThatDoNotLearn) {
  const Json rounds = {{{"draws", {2, 1}}, {"feedback", {1, 2}}}};
  const Json uniform = played(trace(4, rounds, {{"sampler.kind", "uniform"}}));
  expect_numbers(uniform["next"], {0.25, 0.25, 0.25, 0.25});
  expect_numbers(uniform["rounds"][0]["coefficients"], {2, 2});
  const Json weighted =
      played(trace(4, rounds, {{"sampler.kind", "weighted"}}, {{"initial", {10, 20, 30, 40}}}));
  expect_numbers(weighted["next"], {0.1, 0.2, 0.3, 0.4});
  expect_numbers(weighted["rounds"][0]["coefficients"], {1 / 0.6, 1 / 0.4});
  const Json full =
      played(trace(2, {{{"draws", {0, 1}}, {"feedback", {1, 2}}}}, {{"sampler.kind", "full"}}));
  expect_numbers(full["rounds"][0]["coefficients"], {1, 1});
  const Json seen = {{{"draws", {2, 1}}, {"feedback", {9, 4}}, {"foreseen", {0, 4, 9, 25}}}};
  const Json optimal = played(trace(4, seen, {{"sampler.kind", "optimal"}}));
  expect_numbers(optimal["rounds"][0]["probabilities"], {0, 0.2, 0.3, 0.5});
  expect_numbers(optimal["rounds"][0]["coefficients"], {1 / 0.6, 1 / 0.4});
}

TEST(ReplaySampler, NamesTheMalformedFieldOfARound) {
  const auto refused = [](const Json& round, std::initializer_list<std::string> parts,
                          const Json& options = Json::object()) {
    const Json good = {{"draws", {0, 1}}, {"feedback", {1, 1}}};
    expect_refused(trace(4, {good, round}, options), parts);
  };
  refused(3, {"rounds[1]"});
  refused({{"feedback", {1, 1}}}, {"'draws' is missing", "rounds[1]"});
  refused({{"draws", {0, 1}}}, {"'feedback' is missing", "rounds[1]"});
  refused({{"draws", {0, 4}}, {"feedback", {1, 1}}}, {"4 is no integer in [0, 4)", "[1].draws"});
  refused({{"draws", {0, 1.5}}, {"feedback", {1, 1}}}, {"1.5 is no integer", "[1].draws"});
  refused({{"draws", 3}, {"feedback", {1}}}, {"array of client ids", "rounds[1].draws"});
  refused({{"draws", {0, 1}}, {"feedback", {1}}}, {"array of 2 numbers", "rounds[1].feedback"});
  refused({{"draws", {0, 1}}, {"feedback", {1, nullptr}}}, {"null", "rounds[1].feedback"});
  refused({{"draws", {0, 3}}, {"feedback", {1, -2}}}, {"client 3 is -2", "rounds[1]"});
  refused({{"draws", {3, 3}}, {"feedback", {5, -2}}}, {"client 3 is -2", "rounds[1]"});
  refused({{"draws", {0}}, {"feedback", {1}}}, {"1 draws, expected 2", "rounds[1]"});
  refused({{"draws", {3, 3}}, {"feedback", {1, 1}}}, {"client 3 stands twice", "rounds[1]"},
          {{"sampler.replacement", false}});
  refused({{"draws", {0, 1}}, {"feedback", {1, 1}}, {"available", {1, 2, 3}}},
          {"client 0 cannot be drawn", "rounds[1]"});
  refused({{"draws", {0, 1}}, {"feedback", {1, 1}}, {"available", {0, 1, 1}}},
          {"client 1 stands twice", "rounds[1].available"});
  refused({{"draws", {0, 1}}, {"feedback", {1, 1}}, {"available", {0, 1, 9}}},
          {"9 is no integer in [0, 4)", "rounds[1].available"});
}

TEST(ReplaySampler, NamesTheMalformedFieldOfTheTrace) {
  const auto refused = [](const Json& more, std::initializer_list<std::string> parts) {
    expect_refused(trace(3, Json::array(), Json::object(), more), parts);
  };
  refused({{"initial", {0.5, 0.25, 0.2}}}, {"sum to 0.95", "trace.initial"});
  refused({{"initial", {0.5, 0.5}}}, {"array of 3 numbers", "trace.initial"});
  refused({{"initial", {1.5, -0.5, 0}}}, {"-0.5 is below 0", "trace.initial"});
  refused({{"importance", {0.5, 0.5}}}, {"array of 3 numbers", "trace.importance"});
  refused({{"clients", 0}}, {"0 is no integer", "clients"});
  refused({{"rounds", 7}}, {"array of rounds", "rounds"});
}

TEST(ReplaySampler, NamesTheMalformedOptionOfTheRule) {
  const Json rounds = {{{"draws", {0, 1}}, {"feedback", {1, 1}}}};
  const auto refused = [&](const Json& options, std::initializer_list<std::string> parts) {
    expect_refused(trace(3, rounds, options), parts);
  };
  refused({{"sampler.kind", "omsd"}}, {"'omsd'", "rule.sampler.kind", "did you mean 'osmd'"});
  refused({{"sampler.alpha", 0}}, {"0 is out of range (0, 1]", "rule.sampler.alpha"});
  refused({{"sampler.alpha", 1.01}}, {"out of range (0, 1]", "rule.sampler.alpha"});
  refused({{"sampler.eta", -1}}, {"'-1'", "sampler.eta", "at least 0"});
  refused({{"sampler.eta", "auto"}, {"sampler.a-max", 1}}, {"number of rounds", "sampler.horizon"});
  refused({{"sampler.kind", "adaptive-osmd"}, {"sampler.a-max", 1}},
          {"number of rounds", "sampler.horizon", "osmd-doubling"});
  refused({{"sampler.kind", "adaptive-osmd"}, {"sampler.horizon", 5}},
          {"all clients", "rounds[0]", "foreseen", "sampler.a-max"});
  refused({{"sampler.kind", "optimal"}}, {"all clients", "rounds[0]"});
  refused({{"sampler.kind", "osmd-doubling"}, {"sampler.a-max", 0}}, {"0", "sampler.a-max"});
  refused({{"sampler.replacement", false}, {"sampler.per-round", 4}},
          {"2 draws, expected 3", "rounds[0]"});
  refused({{"sampler.per-round", 3}}, {"2 draws, expected 3", "rounds[0]"});
}

}  // namespace
}  // namespace hanse
