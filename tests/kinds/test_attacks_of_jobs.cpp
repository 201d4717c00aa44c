// Attacks as a job's options make them.
#include <functional>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/kinds/attacks.hpp"
#include "hanse/kinds/conflicts.hpp"
#include "hanse/kinds/families.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

struct AttackJob {
  std::vector<KindFamily> families = kind_families();
  KeyedJob job{families};
  explicit AttackJob(const std::string& kind, const std::string& clients = "2") {
    job.table.set("attack.kind", kind, "test");
    job.table.set("attack.clients", clients, "test");
    job.table.resolve();
  }
  void check() {
    require_no_conflict(facts_of(job));
    for (const KindFamily& family : families) {
      if (family.key != "attack.kind") continue;
      if (const auto& check = family.find(job.attack.kind).check) check(job);
    }
  }
};

TEST(AttacksOfJobs, NobodyAttacksUnlessAsked) {
  Job job;
  EXPECT_EQ(make_attackers(job, 10), nullptr);
  EXPECT_EQ(attacking_share(job.attack, 10, 1), 0);
  EXPECT_EQ(make_replacement(job, 10), nullptr);
  EXPECT_EQ(poison_of(job, 10).kind, Poison::kNone);
}

TEST(AttacksOfJobs, HaveStrengthsOfTheirOwn) {
  for (const auto& [kind, strength] : {std::pair{"sign-flip", 1.0},
                                       {"ipm", 2.0},
                                       {"alie", 1.5},
                                       {"gauss", 1.0},
                                       {"replace", 0.0}}) {
    EXPECT_EQ(AttackJob(kind).job.attack.strength, strength) << kind;
  }
}

TEST(AttacksOfJobs, ForgeWithTheRowsThatTheyNeed) {
  const auto direction = [](const std::string& kind, const std::string& along = "unit") {
    AttackJob a(kind);
    a.job.table.set("attack.direction", along, "test");
    const ForgeNeeds needs = make_attackers(a.job, 10)->needs();
    EXPECT_TRUE(needs.forges);
    return needs.direction;
  };
  EXPECT_EQ(direction("alie"), ForgedDirection::kDeviation);
  EXPECT_EQ(direction("ipm"), ForgedDirection::kNone);
  EXPECT_EQ(direction("gauss"), ForgedDirection::kOwn);
  EXPECT_EQ(direction("min-max"), ForgedDirection::kNone);
  EXPECT_EQ(direction("min-max", "sign"), ForgedDirection::kSign);
  EXPECT_EQ(direction("min-sum", "std"), ForgedDirection::kDeviation);
  for (const char* kind : {"feedback", "label-flip", "backdoor", "replace"}) {
    EXPECT_FALSE(make_attackers(AttackJob(kind).job, 10)->needs().forges) << kind;
  }
}

TEST(AttacksOfJobs, AttackersAreAmongTheParticipantsInTheirRounds) {
  AttackJob a("ipm", "3,7");
  a.job.table.set("attack.first-round", "2", "test");
  const auto attackers = make_attackers(a.job, 10);
  const std::vector<int64_t> clients{7, 0, 3};
  EXPECT_EQ(attackers->among(1, clients), (std::vector<char>{0, 0, 0}));
  EXPECT_EQ(attackers->among(2, clients), (std::vector<char>{1, 0, 1}));
  EXPECT_EQ(attacking_share(a.job.attack, 10, 1), 0.2);
}

TEST(AttacksOfJobs, NoiseHasTheSameValuesInAnyPieces) {
  AttackJob a("gauss");
  const auto attackers = make_attackers(a.job, 10);
  std::vector<float> whole(9), pieces(9), other(9);
  attackers->fill(4, 0, whole);
  attackers->fill(4, 0, std::span(pieces).first(5));
  attackers->fill(4, 5, std::span(pieces).subspan(5));
  attackers->fill(5, 0, other);
  EXPECT_EQ(whole, pieces);
  EXPECT_NE(whole, other);
}

TEST(AttacksOfJobs, ReplacementMultipliesByClientsOverAttackers) {
  AttackJob a("replace", "1,3");
  const auto stage = make_replacement(a.job, 10);
  const auto sent = [&](int64_t client) {
    std::vector<float> update{1, -2};
    stage->apply({.client = client, .round = 1, .seed = 1, .update = update});
    return update;
  };
  EXPECT_EQ(sent(0), (std::vector<float>{1, -2}));
  EXPECT_EQ(sent(3), (std::vector<float>{5, -10}));
}

TEST(AttacksOfJobs, WhatDoesNotGoTogetherIsRefused) {
  struct Wrong {
    const char* kind;
    std::vector<std::pair<std::string, std::string>> keys;
    std::string key, what;
  };
  const std::vector<Wrong> cases{
      {"ipm", {{"attack.clients", "0"}}, "(attack.clients)", "nobody attacks"},
      {"nan",
       {{"attack.first-round", "5"}, {"attack.last-round", "4"}},
       "(attack.last-round)",
       "before it begins"},
      {"ipm", {{"attack.idle", "true"}, {"attack.clients", "0.1"}}, "(attack.clients)", "further"},
      {"ipm", {{"attack.idle", "true"}, {"client.update", "ditto"}}, "(attack.idle)", "need data"},
      {"ipm",
       {{"attack.idle", "true"}, {"sampler.kind", "weighted"}},
       "(attack.idle)",
       "some have none"},
      {"ipm", {{"run.round-seconds", "2"}}, "(run.round-seconds)", "every participant"},
      {"ipm", {{"async.kind", "fedbuff"}}, "(async.kind)", "of rounds"},
      {"optimal-ipm", {{"aggregator.kind", "afl"}}, "(attack.kind)", "without a bound"},
      {"optimal-alie", {{"aggregator.kind", "fedavg"}}, "(attack.kind)", "without a bound"},
      {"label-flip",
       {{"attack.source", "3"}, {"attack.target", "3"}},
       "(attack.target)",
       "the label itself"},
      {"backdoor", {{"attack.target", "1.5"}}, "(attack.target)", "no class"},
      {"label-flip", {{"client.update", "fednew"}}, "(attack.kind)", "as they are"}};
  for (const Wrong& wrong : cases) {
    SCOPED_TRACE(wrong.what);
    AttackJob a(wrong.kind);
    for (const auto& [key, value] : wrong.keys) a.job.table.set(key, value, "test");
    expect_error<InvalidArgument>([&] { a.check(); }, {wrong.what, wrong.key, "hint: "});
  }
}

}  // namespace
}  // namespace hanse
