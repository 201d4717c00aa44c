// Rules in a library: what they are given, what is checked of them, and their state.
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/plugin.h"
#include "hanse/plugin/rules.hpp"
#include "hanse/rules/told.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Numbers = std::vector<double>;

// A library of rules.c, which lies beside this program.
std::string plugin(const std::string& name) {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return folder / ("libplugin_" + name + ".so");
}

RuleSource source(const std::string& section, const std::string& what) {
  return {.section = section,
          .file = {.path = plugin("rules"), .args = what.empty() ? "" : "other = 1, what=" + what}};
}

const std::vector<int64_t> kClients{4, 0, 2};
const Numbers kShares{0.1, 0.3, 0.6};
const Numbers kOnes{1, 1, 1};
const Numbers kNorms{3, 1, 4};
const Numbers kGram{2, 0, 1, 0, 3, 0, 1, 0, 5};

RoundReport report() {
  return {.round = 7,
          .clients = kClients,
          .lambda = kShares,
          .draw_weights = kOnes,
          .samples = kShares,
          .norms = kNorms,
          .gram = kGram};
}

Numbers mix(Aggregator& rule) {
  RoundReport given = report();
  if (!rule.needs().gram) given.gram = {};
  if (!rule.needs().late) given.norms = {};
  return rule.mix(given).coefficients;
}

TEST(Plugin, Aggregator) {
  const auto equal = make_own_aggregator(source("aggregator", ""), 5);
  EXPECT_EQ(mix(*equal), (Numbers{1.0 / 3, 1.0 / 3, 1.0 / 3}));
  EXPECT_EQ(equal->scale(report(), kNorms), 1);
  EXPECT_FALSE(equal->needs().norms);
  EXPECT_FALSE(equal->needs().after_training());
  const auto late = make_own_aggregator(source("aggregator", "norms"), 5);
  EXPECT_TRUE(late->needs().after_training());
  EXPECT_EQ(mix(*late), kNorms);
  const auto gram = make_own_aggregator(source("aggregator", "gram"), 5);
  EXPECT_TRUE(gram->needs().gram);
  EXPECT_EQ(mix(*gram), (Numbers{2, 3, 5}));
  const auto scaled = make_own_aggregator(source("aggregator", "scale"), 5);
  EXPECT_TRUE(scaled->needs().norms);
  EXPECT_FALSE(scaled->needs().after_training());
  EXPECT_EQ(scaled->scale(report(), kNorms), 0.25);
}

TEST(Plugin, WhatAnAggregatorMayNotDo) {
  const auto refused = [](const std::string& what, std::initializer_list<std::string> parts) {
    expect_error<InvalidArgument>([&] { mix(*make_own_aggregator(source("aggregator", what), 5)); },
                                  parts);
  };
  refused("nan", {"mix() gives client 0 the coefficient nan in round 7", "aggregator.path",
                  "plugin_rules"});
  refused("negative", {"gives client 0 the coefficient -1"});
  refused("fail", {"no mix in round 7 (aggregator.path)"});
  refused("refuse", {"nothing for 5 clients (aggregator.path)"});
}

Draw draw(ClientSampler& sampler, int64_t round, int64_t n = 3) {
  RandomStream stream(3, Purpose::kSampling, static_cast<uint64_t>(round));
  return sampler.draw(round, n, stream);
}

TEST(Plugin, Sampler) {
  const auto sampler = make_own_sampler(source("sampler", ""), Numbers(6, 1.0), 3);
  sampler->toggle(std::vector<int64_t>{1, 3});  // 0, 2, 4 and 5 are there
  const Draw drawn = draw(*sampler, 1);
  RandomStream same(3, Purpose::kSampling, 1);
  const std::vector<int64_t> there{0, 2};
  const int64_t first = there[static_cast<std::size_t>(same.below(2))];
  EXPECT_EQ(drawn.clients, (std::vector<int64_t>{first, 4}));
  const double weight = same.uniform();
  EXPECT_EQ(drawn.weights, (Numbers{weight, std::abs(same.normal())}));
  EXPECT_EQ(drawn.counts, (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(draw(*make_own_sampler(source("sampler", "none"), Numbers(6, 1.0), 3), 1).size(), 0U);
  sampler->toggle(std::vector<int64_t>{0, 2, 4, 5});
  EXPECT_EQ(draw(*sampler, 2).size(), 0U);  // nobody is there
}

// What a library finds where: later versions only add fields at the ends.
static_assert(offsetof(HansePlugin, candidates) == 14 * 8);
static_assert(offsetof(HansePlugin, attack) == 17 * 8 && offsetof(HansePlugin, columns) == 18 * 8);
static_assert(offsetof(HanseRandom, below) == 32 && offsetof(HanseRandom, asked) == 40);
static_assert(offsetof(HanseNeeds, candidates) == 32 && offsetof(HanseNeeds, columns) == 36);
static_assert(offsetof(HanseHonest, gram) == 32 && offsetof(HanseHonest, rows) == 40);

// Numbers that rules of the user's own are told.
template <class Report>
constexpr std::size_t count_views() {
  return std::apply([](const auto&... row) { return (std::size_t{row.view != nullptr} + ...); },
                    kTold<Report>);
}

// Each but the participants and their lambda has a row of rules/told.hpp.
static_assert(sizeof(HanseReport) == (6 + count_views<RoundReport>()) * 8);
static_assert(sizeof(HanseFeedback) == (4 + count_views<Feedback>()) * 8);

TEST(Plugin, ASamplerIsToldHowManyADrawAsksFor) {
  const auto sampler = make_own_sampler(source("sampler", "asked"), Numbers(6, 1.0), 2);
  EXPECT_TRUE(sampler->draws_any_number());
  EXPECT_EQ(draw(*sampler, 1, 2).size(), 2U);
  EXPECT_EQ(draw(*sampler, 2, 1).size(), 1U);
}

// It draws two, whatever is asked for.
TEST(Plugin, ASamplerMayDrawFewerThanARoundAsksFor) {
  const auto sampler = make_own_sampler(source("sampler", ""), Numbers(6, 1.0), 3);
  EXPECT_EQ(draw(*sampler, 1, 2).clients, draw(*sampler, 1, 3).clients);
  EXPECT_EQ(draw(*sampler, 1, 0).size(), 0U);  // it is not asked
  expect_error<InvalidArgument>(
      [&] { draw(*sampler, 4, 1); },
      {"draw() gives 2 clients in round 4, more than asked for: 1", "sampler.path"});
}

Numbers losses_of(const std::vector<int64_t>& clients) {
  Numbers losses;
  for (const int64_t client : clients) losses.push_back(10 - static_cast<double>(client));
  return losses;
}

TEST(Plugin, ASamplerMayDrawByLosses) {
  const auto sampler = make_own_sampler(source("sampler", "losses"), Numbers(6, 1.0), 3);
  EXPECT_TRUE(sampler->needs_candidates());
  sampler->toggle(std::vector<int64_t>{1, 3});
  RandomStream stream(3, Purpose::kSampling, 1), same = stream;
  const auto named = sampler->candidates(1, 3, stream);
  EXPECT_EQ(named, (std::vector<int64_t>{0, 4}));
  same.below(2);
  EXPECT_EQ(stream.uniform(), same.uniform());
  sampler->take_candidates(named, losses_of(named));
  const Draw drawn = sampler->draw(1, 3, stream);
  EXPECT_EQ(drawn.clients, std::vector<int64_t>{0});
  EXPECT_EQ(drawn.weights, Numbers{10});
  EXPECT_TRUE(sampler->candidates(2, 0, stream).empty());
  EXPECT_FALSE(make_own_sampler(source("sampler", ""), Numbers(6, 1.0), 3)->needs_candidates());
  const auto refused = [&](const std::string& what, std::initializer_list<std::string> parts) {
    const auto other = make_own_sampler(source("sampler", what), Numbers(6, 1.0), 3);
    other->toggle(std::vector<int64_t>{1});
    expect_error<InvalidArgument>([&] { other->candidates(4, 3, stream); }, parts);
  };
  refused("losses-many", {"candidates() gives 6 of 5 clients in round 4", "sampler.path"});
  refused("losses-absent", {"candidates() gives client 1, who is not available in round 4"});
  refused("losses-twice", {"candidates() gives client 0 twice in round 4"});
}

TEST(Plugin, RulesAreToldSizesAndTimes) {
  const auto sampler = make_own_sampler(source("sampler", "samples"), Numbers{7, 1, 1, 1}, 3);
  EXPECT_EQ(draw(*sampler, 1).weights[0], 7);
  const Draw drawn{.clients = {3}};
  const Numbers one{1}, seconds{5};
  const std::vector<int64_t> late{2};
  sampler->observe(drawn, {.a = one, .losses = one});
  sampler->observe(drawn, {.a = one, .losses = one, .staleness = late, .durations = seconds});
  sampler->observe_late(std::vector<int64_t>{2}, seconds);
  State state;
  sampler->save(state);
  EXPECT_EQ(state.get_one<int64_t>("own/calls/values"), 3 + (3 + 500 + 20000) + 10000000);
  const auto rule = make_own_aggregator(source("aggregator", "times"), 5);
  EXPECT_EQ(mix(*rule), Numbers(3, 9));
  RoundReport with = report();
  const std::vector<int64_t> staleness{0, 2, 1};
  with.gram = with.norms = {};
  with.staleness = staleness;
  with.durations = kNorms;
  EXPECT_EQ(rule->mix(with).coefficients, (Numbers{3, 3, 5}));
}

// A library that was compiled before the interface grew.
TEST(Plugin, TheFirstFormOfTheInterfaceHolds) {
  const RuleSource first{.section = "sampler", .file = {.path = plugin("first_form"), .args = ""}};
  const auto old = make_own_sampler(first, Numbers(6, 1.0), 3);
  EXPECT_FALSE(old->needs_candidates());
  EXPECT_FALSE(old->draws_any_number());
  const auto present = make_own_sampler(source("sampler", ""), Numbers(6, 1.0), 3);
  EXPECT_EQ(draw(*old, 1).clients, draw(*present, 1).clients);
  old->observe_late(std::vector<int64_t>{2}, Numbers{5});
}

TEST(Plugin, WhatASamplerMayNotDo) {
  const auto refused = [](const std::string& what, std::initializer_list<std::string> parts) {
    const auto sampler = make_own_sampler(source("sampler", what), Numbers(6, 1.0), 3);
    sampler->toggle(std::vector<int64_t>{1, 3});
    expect_error<InvalidArgument>([&] { draw(*sampler, 4); }, parts);
  };
  refused("many",
          {"draw() gives 100 clients in round 4, more than sampler.per-round = 3", "sampler.path"});
  refused("twice", {"twice in round 4"});
  refused("absent", {"client 3, who is not available in round 4"});
  refused("negative", {"client 4 the weight -1 in round 4"});
}

TEST(Plugin, AnAggregatorMayWorkByColumns) {
  const auto rule = make_own_aggregator(source("aggregator", "columns"), 5);
  const AggregatorNeeds needs = rule->needs();
  EXPECT_TRUE(needs.columns && needs.own_columns && needs.rejects && needs.late && needs.norms);
  RoundReport with = report();
  with.gram = {};
  const Numbers norms{3, INFINITY, 4};
  with.norms = norms;
  const Mix mix = rule->mix(with);
  ASSERT_TRUE(mix.columns);
  EXPECT_EQ(mix.columns->n, 2);  // client 0's update is not finite
  EXPECT_EQ(mix.columns->map, (Numbers{1, 0, 0, 0, 0, 1}));
  EXPECT_EQ(mix.columns->weights, (Numbers{1.0 / 3, 1.0 / 3}));
  EXPECT_EQ(mix.direction.dropped, 1);
  const auto shares = make_own_aggregator(source("aggregator", "shares"), 5);
  const Mix by_shares = shares->mix(with);
  EXPECT_NEAR(by_shares.columns->weights[0], 0.1 / 0.7, 1e-15);
  EXPECT_NEAR(by_shares.columns->weights[1], 0.6 / 0.7, 1e-15);
  const Numbers none{NAN, INFINITY, NAN};
  with.norms = none;
  EXPECT_FALSE(shares->mix(with).columns);

  State state;
  rule->save(state);  // it has mixed once
  const auto columns = make_own_columns(source("aggregator", "columns"), 5);
  const Numbers values{1, 2, 3, 10, 20, 30}, weights{0.5, 2};
  Numbers step(3);
  columns->step(values, weights, step);
  EXPECT_EQ(step, (Numbers{20.5, 41, 61.5}));
  columns->begin(2, state);
  columns->step(values, weights, step);
  EXPECT_EQ(step, (Numbers{21.5, 42, 62.5}));
  const auto bad = make_own_columns(source("aggregator", "bad-columns"), 5);
  bad->begin(3, State());
  expect_error<InvalidArgument>([&] { bad->step(values, weights, step); },
                                {"columns() gives nan in round 3", "aggregator.path"});
}

TEST(Plugin, AnAttackRemembersAndMaySeeTheLastAggregate) {
  const Numbers four(16, 0.25), three(9, 0.5);
  const AttackRound round{.round = 1, .honest = 1, .byzantine = 2, .gram = {three, 3}};
  const auto plain = make_own_attack(source("attack", ""));
  EXPECT_FALSE(plain->sees_last());
  EXPECT_EQ(plain->decide(round).coefficients, (Numbers{0, 0, 1.5}));
  EXPECT_EQ(plain->decide(round).coefficients, (Numbers{0, 0, 2.5}));
  State state;
  plain->save(state);
  const auto last = make_own_attack(source("attack", "last"));
  EXPECT_TRUE(last->sees_last());
  last->load(state);
  const AttackRound wide{.round = 3, .honest = 1, .byzantine = 2, .gram = {four, 4}};
  EXPECT_EQ(last->decide(wide).coefficients, (Numbers{0, 0, 0, 3.25}));
}

TEST(Plugin, Optimizer) {
  const auto optimizer = make_own_optimizer(source("server", ""), 5);
  std::vector<float> theta{1, 2, 3};
  const std::vector<float> update{2, 4, -6};
  optimizer->step(theta, update, 0.5);
  EXPECT_EQ(theta, (std::vector<float>{2, 4, 0}));
  expect_error<InvalidArgument>(
      [&] { make_own_optimizer(source("server", "nan"), 5)->step(theta, update, 0.5); },
      {"step() gives theta[1] = nan", "server.path"});
}

TEST(Plugin, Metric) {
  const OwnMetric metric = make_own_metric(plugin("rules"));
  const EvaluationTable clients{{.loss = 0.5}, {.loss = 2, .client = 1}};
  const Metrics found = metric(clients, {});
  EXPECT_EQ(found, (Metrics{{"first_loss", 0.5}, {"1", 1}, {"Z\\xFCrich ", 3}}));
  EXPECT_EQ(metric(clients, {})[1].second, 2);
}

// A rule that goes on from a saved state does what the first one does.
TEST(Plugin, State) {
  const auto one = make_own_aggregator(source("aggregator", "calls"), 5);
  EXPECT_EQ(mix(*one)[0], 1);
  EXPECT_EQ(mix(*one)[0], 2);
  State state;
  one->save(state);
  const auto other = make_own_aggregator(source("aggregator", "calls"), 5);
  other->load(state);
  EXPECT_EQ(mix(*other)[0], 3);
  expect_error<InvalidArgument>([&] { other->load(State()); }, {"the state has no calls"});
}

TEST(Plugin, WhatIsNoPlugin) {
  const auto refused = [](const std::string& path, std::initializer_list<std::string> parts) {
    expect_error<InvalidArgument>(
        [&] { make_own_aggregator({.section = "aggregator", .file = {.path = path}}, 5); }, parts);
  };
  const std::string text = testing::TempDir() + "/no_plugin.so";
  std::ofstream(text) << "no library";
  refused(text, {"the library cannot be loaded", "no_plugin.so", "aggregator.path"});
  refused(testing::TempDir() + "/none.so", {"no such file", "none.so"});
  refused("", {"the rule has no file", "aggregator.path", "name a library"});
  refused(plugin("other_version"), {"made for version 2 of the interface, and this program has 1"});
  refused(plugin("no_entry"), {"no plugin: it has no function hanse_plugin"});
  expect_error<InvalidArgument>(
      [] {
        make_own_aggregator(
            {.section = "aggregator", .file = {.path = plugin("rules"), .args = "a=1, b"}}, 5);
      },
      {"'b' is no name=value", "aggregator.args"});
}

}  // namespace
}  // namespace hanse
