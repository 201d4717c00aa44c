// The keys of [privacy], and what private rounds refuse.
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/kinds/conflicts.hpp"
#include "hanse/kinds/families.hpp"
#include "hanse/kinds/privacy.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

// A private job that passes its check.
struct PrivateJob {
  std::vector<KindFamily> families = kind_families();
  KeyedJob job{families};

  PrivateJob() {
    set("privacy.kind", "central");
    set("aggregator.weights", "uniform");
    set("aggregator.estimator", "unbiased");
  }
  PrivateJob& set(const std::string& key, const std::string& value) {
    job.table.set(key, value, "test");
    return *this;
  }
  void check() {
    job.table.resolve();
    require_no_conflict(facts_of(job));
    for (const KindFamily& family : families) {
      if (family.key != "privacy.kind") continue;
      if (const auto& check = family.find(job.privacy.kind).check) check(job);
    }
  }
  std::string text(const std::string& key) const { return job.table.at(key).format(); }
};

using Keys = std::vector<std::pair<std::string, std::string>>;

void expect_refused(const Keys& keys, std::initializer_list<std::string> parts) {
  PrivateJob private_job;
  for (const auto& [key, value] : keys) private_job.set(key, value);
  SCOPED_TRACE(keys.front().first + " = " + keys.front().second);
  expect_error<InvalidArgument>([&] { private_job.check(); }, parts);
}

TEST(PrivacyOfJobs, DefaultsAreThoseOfTheTable) {
  const PrivateJob p;
  for (const auto& [key, value] : Keys{{"mechanism", "discrete-gaussian"},
                                       {"clip", "1"},
                                       {"clip-kind", "fixed"},
                                       {"quantile", "0.5"},
                                       {"clip-rate", "0.2"},
                                       {"count-noise", "auto"},
                                       {"noise", "1"},
                                       {"epsilon", "0"},
                                       {"delta", "1e-05"},
                                       {"adjacency", "zero-out"},
                                       {"step", "auto"},
                                       {"seed", "auto"},
                                       {"correlation", "none"},
                                       {"bands", "8"},
                                       {"separation", "auto"},
                                       {"participations", "auto"},
                                       {"accountant", "auto"},
                                       {"audit", "false"},
                                       {"max-epsilon", "0"},
                                       {"honest", "1"},
                                       {"unit", "client"}}) {
    EXPECT_EQ(p.text("privacy." + key), value) << key;
  }
  PrivateJob().check();
}

TEST(PrivacyOfJobs, AResumeChangesWhatIsToldAndWhenItEnds) {
  const PrivateJob p;
  std::vector<std::string> changing;
  for (const Option& option : p.job.table.options()) {
    if (option.section() == "privacy" && option.may_change) changing.push_back(option.key);
  }
  EXPECT_EQ(changing, (std::vector<std::string>{"privacy.audit", "privacy.max-epsilon"}));
  EXPECT_FALSE(p.job.table.at("aggregator.cap").may_change);
}

// What shows samples without noise, or lets one move another's gradient, is refused for samples.
TEST(PrivacyOfJobs, SamplesNeedStepsOfTheirOwn) {
  PrivateJob().set("privacy.unit", "sample").check();
  for (const auto& [key, value] : Keys{{"privacy.kind", "distributed"},
                                       {"privacy.adjacency", "add-remove"},
                                       {"privacy.adjacency", "replace"},
                                       {"privacy.clip-kind", "adaptive"},
                                       {"privacy.correlation", "tree"},
                                       {"aggregator.kind", "qfedavg"},
                                       {"aggregator.kind", "afl"},
                                       {"aggregator.kind", "propfair"},
                                       {"client.update", "scaffold"},
                                       {"client.mixup", "0.2"},
                                       {"client.accumulate", "2"},
                                       {"client.drop-last", "true"},
                                       {"client.objective", "loss.pt"},
                                       {"client.class-weights", "client"},
                                       {"data.standardize", "client"},
                                       {"data.missing", "mean"}}) {
    expect_refused({{"privacy.unit", "sample"}, {key, value}}, {key});
  }
  for (const auto& [key, value] : Keys{{"aggregator.kind", "median"},
                                       {"aggregator.weights", "samples"},
                                       {"aggregator.estimator", "normalized"},
                                       {"comm.reduction", "fast"},
                                       {"client.update", "prox"},
                                       {"client.momentum", "0.9"},
                                       {"privacy.mechanism", "gaussian"}}) {
    PrivateJob().set("privacy.unit", "sample").set(key, value).check();
  }
}

TEST(PrivacyOfJobs, StepsArePowersOfTwo) {
  for (const auto& [text, exponent] :
       std::vector<std::pair<std::string, int>>{{"2^-20", -20},
                                                {"0.25", -2},
                                                {"1", 0},
                                                {"2^0", 0},
                                                {"2^-44", -44},
                                                {"6.103515625e-05", -14}}) {
    PrivateJob p;
    p.set("privacy.step", text);
    EXPECT_EQ(p.job.privacy.step.exponent, exponent) << text;
    EXPECT_EQ(p.text("privacy.step"), "2^" + std::to_string(exponent));
  }
  EXPECT_EQ(LatticeStep::parse("auto").exponent, std::nullopt);
  for (const std::string text : {"2^-45", "2^1", "2", "2^-60"}) {
    expect_error<InvalidArgument>([&] { PrivateJob().set("privacy.step", text); },
                                  {"privacy.step", text, "[2^-44, 1]"});
  }
  for (const std::string text : {"0.3", "0", "-1", "nan", "inf", "2^x", "2^1.5", "", "2^"}) {
    expect_error<InvalidArgument>([&] { PrivateJob().set("privacy.step", text); },
                                  {"privacy.step", "power of two"});
  }
}

TEST(PrivacyOfJobs, SeedsAreNumbersOrTheSystems) {
  PrivateJob p;
  EXPECT_TRUE(p.set("privacy.seed", "system").job.privacy.seed.of_system);
  EXPECT_EQ(p.text("privacy.seed"), "system");
  EXPECT_EQ(p.set("privacy.seed", "9223372036854775807").job.privacy.seed.number, INT64_MAX);
  EXPECT_EQ(p.text("privacy.seed"), "9223372036854775807");
  EXPECT_EQ(p.set("privacy.seed", "auto").job.privacy.seed.number, 0);
  EXPECT_FALSE(p.job.privacy.seed.of_system);
  for (const std::string text : {"0", "-3", "1.5", "urandom"}) {
    expect_error<InvalidArgument>([&] { PrivateJob().set("privacy.seed", text); },
                                  {"privacy.seed"});
  }
}

TEST(PrivacyOfJobs, NumbersLieInTheirRanges) {
  for (const auto& [key, value] : Keys{{"clip", "0"},
                                       {"quantile", "1.1"},
                                       {"clip-rate", "0"},
                                       {"count-noise", "-1"},
                                       {"noise", "-1"},
                                       {"epsilon", "-1"},
                                       {"delta", "0"},
                                       {"delta", "-1"},
                                       {"delta", "1"},
                                       {"bands", "0"},
                                       {"separation", "-2"},
                                       {"max-epsilon", "-1"},
                                       {"honest", "0"},
                                       {"honest", "1.01"}}) {
    expect_error<InvalidArgument>(
        [key = "privacy." + key, value = value] { PrivateJob().set(key, value); },
        {"privacy." + key});
  }
  expect_error<InvalidArgument>([] { PrivateJob().set("aggregator.cap", "-1"); },
                                {"aggregator.cap"});
  expect_error<InvalidArgument>(
      [] { PrivateJob().set("sampler.kind", "poisson").set("sampler.per-round", "0"); },
      {"sampler.per-round"});
}

TEST(PrivacyOfJobs, RefuseNumbersThatLeaveAClientWithoutNoise) {
  expect_refused({{"aggregator.kind", "qfedavg"}}, {"qfedavg", "aggregator.kind", "fedavg"});
  expect_refused({{"aggregator.kind", "krum"}}, {"krum", "aggregator.kind"});
  expect_refused({{"aggregator.before", "clip(1)"}}, {"aggregator.before", "privacy.clip"});
  expect_refused({{"client.update", "scaffold"}}, {"scaffold", "client.update", "sgd or prox"});
  expect_refused({{"client.update", "fednova"}}, {"fednova"});
  expect_refused({{"client.update", "feddyn"}}, {"feddyn"});
  expect_refused({{"sampler.kind", "osmd"}}, {"osmd", "sampler.kind"});
  expect_refused({{"sampler.kind", "weighted"}}, {"weighted", "poisson, uniform, full or cyclic"});
  expect_refused({{"comm.compress", "top-k"}}, {"top-k", "comm.compress"});
  expect_refused({{"comm.reduction", "fast"}}, {"comm.reduction", "exact"});
  expect_refused({{"attack.kind", "alie"}, {"attack.clients", "2"}}, {"alie", "attack.kind"});
  expect_refused({{"data.normalize", "all"}}, {"data.normalize", "without noise"});
  expect_refused({{"data.standardize", "all"}}, {"data.standardize"});
  expect_refused({{"client.class-weights", "all"}}, {"client.class-weights"});
}

TEST(PrivacyOfJobs, RefuseNormalizersAndWeightsThatDependOnTheData) {
  expect_refused({{"aggregator.estimator", "normalized"}}, {"normalized", "unbiased"});
  expect_refused({{"aggregator.weights", "samples"}}, {"aggregator.weights", "capped"});
}

TEST(PrivacyOfJobs, RefuseThatMoreThanChanceDecidesWhoCounts) {
  expect_refused({{"sampler.replacement", "true"}}, {"twice", "sampler.replacement"});
  expect_refused({{"sampler.availability", "0.5"}}, {"sampler.availability", "always"});
  expect_refused({{"run.round-seconds", "3"}}, {"run.round-seconds"});
  expect_refused({{"async.kind", "fedbuff"}, {"clock.kind", "virtual"}}, {"async.kind"});
  expect_refused({{"clock.kind", "virtual"}, {"clock.round", "first"}}, {"clock.round"});
  expect_refused({{"clock.kind", "virtual"}, {"clock.lost", "0.1"}}, {"clock.round", "lost"});
  expect_refused({{"clock.kind", "virtual"}, {"run.virtual-seconds", "9"}},
                 {"run.virtual-seconds", "samples"});
}

TEST(PrivacyOfJobs, RefuseTargetsThatNothingAimsAt) {
  expect_refused({{"privacy.noise", "auto"}}, {"privacy.epsilon", "none is given"});
  expect_refused({{"privacy.epsilon", "4"}}, {"noise = 1", "privacy.noise = auto"});
  expect_refused({{"privacy.separation", "4"}}, {"privacy.separation", "privacy.correlation"});
}

TEST(PrivacyOfJobs, RefuseWhatTellsTheSecret) {
  const auto secret = [](Keys keys) {
    keys.insert(keys.end(), {{"privacy.seed", "system"}, {"sampler.seed", "3"}});
    return keys;
  };
  const std::pair<std::string, std::string> one{"checkpoint.keep", "1"};
  expect_refused(secret({{"sampler.kind", "poisson"}, one}), {"sampler.seed", "secret"});
  expect_refused(secret({{"privacy.adjacency", "replace"}, one}), {"sampler.seed", "secret"});
  expect_refused({{"privacy.seed", "system"}}, {"checkpoint.keep", "older"});
  PrivateJob fixed;  // draws of a fixed number do not amplify under zero-out
  for (const auto& [key, value] : secret({one})) fixed.set(key, value);
  fixed.check();
  EXPECT_FALSE(has_secret_draws(fixed.job));
  EXPECT_TRUE(has_secret_draws(fixed.set("sampler.kind", "poisson").job));
  EXPECT_FALSE(has_secret_draws(fixed.set("privacy.seed", "4").job));
}

TEST(PrivacyOfJobs, AnEpsilonThatDoesNotHoldHasAReason) {
  PrivateJob p;
  EXPECT_EQ(privacy_flaw(p.job.privacy), "not private: the seed is known");
  p.set("privacy.seed", "system");
  EXPECT_EQ(privacy_flaw(p.job.privacy), "");
  p.set("privacy.noise", "0");
  EXPECT_EQ(privacy_flaw(p.job.privacy), "not private: there is no noise");
  p.set("privacy.noise", "1").set("privacy.mechanism", "gaussian");
  EXPECT_NE(privacy_flaw(p.job.privacy).find("floating-point"), std::string::npos);
}

TEST(PrivacyOfJobs, ClientsSendAllButTheirPersonalTensors) {
  ParameterLayout layout;
  layout.add("a", {3}, 1);
  layout.add("b", {4}, 1);
  layout.add("c", {5}, 1);
  PrivateJob p;
  EXPECT_TRUE(kept_parts(p.job, layout).empty());
  EXPECT_EQ(sent_params(p.job, layout), 12);
  p.set("client.personal", "b");
  ASSERT_EQ(kept_parts(p.job, layout).size(), 1);
  EXPECT_EQ(kept_parts(p.job, layout)[0].begin, 3);
  EXPECT_EQ(sent_params(p.job, layout), 8);
}

TEST(PrivacyOfJobs, RefuseNeighboursForWhomNoTheoremHolds) {
  expect_refused({{"privacy.adjacency", "add-remove"}}, {"uniform", "add-remove", "poisson"});
  expect_refused({{"privacy.adjacency", "replace"}, {"sampler.kind", "poisson"}},
                 {"poisson", "replace", "uniform and full"});
}

TEST(PrivacyOfJobs, AllowWhatDependsOnNoData) {
  for (const Keys& keys :
       std::vector<Keys>{{{"sampler.kind", "poisson"}, {"privacy.adjacency", "add-remove"}},
                         {{"sampler.kind", "cyclic"}},
                         {{"sampler.kind", "full"}, {"privacy.adjacency", "replace"}},
                         {{"privacy.kind", "distributed"}},
                         {{"client.update", "prox"}},
                         {{"client.personal", "fc*"}},
                         {{"client.worker-momentum", "0.9"}},
                         {{"server.optimizer", "adam"}},
                         {{"aggregator.weights", "capped"}, {"aggregator.cap", "20"}},
                         {{"attack.kind", "backdoor"}, {"attack.clients", "2"}},
                         {{"clock.kind", "virtual"}, {"clock.speed", "lognormal(0,1)"}},
                         {{"data.normalize", "0.5,0.2"}},
                         {{"privacy.noise", "auto"}, {"privacy.epsilon", "4"}},
                         {{"run.target", "accuracy>=0.9"}}}) {
    PrivateJob p;
    for (const auto& [key, value] : keys) p.set(key, value);
    SCOPED_TRACE(keys.front().first + " = " + keys.front().second);
    p.check();
  }
}

TEST(PrivacyOfJobs, TermsFollowTheSampler) {
  PrivateJob p;
  p.set("sampler.per-round", "30");
  const PrivacyTerms uniform = privacy_terms(p.job, 100, 7);
  EXPECT_EQ(uniform.attendance, Attendance::kUniform);
  EXPECT_EQ(uniform.per_round, 30);
  EXPECT_EQ(uniform.clients, 100);
  EXPECT_EQ(uniform.n_params, 7);
  EXPECT_EQ(privacy_terms(p.job, 20, 7).attendance, Attendance::kFull);  // all take part
  EXPECT_EQ(privacy_terms(p.job, 20, 7).per_round, 20);
  p.set("sampler.kind", "poisson").set("privacy.mechanism", "skellam");
  EXPECT_EQ(privacy_terms(p.job, 100, 7).attendance, Attendance::kPoisson);
  EXPECT_EQ(privacy_terms(p.job, 100, 7).mechanism, Mechanism::kSkellam);
  p.set("sampler.kind", "full");
  EXPECT_EQ(privacy_terms(p.job, 100, 7).per_round, 100);
}

TEST(PrivacyOfJobs, CappedWeightsNeedACapAndFedavg) {
  const auto check = [](const Keys& keys) {
    PrivateJob p;
    p.set("privacy.kind", "none").set("aggregator.weights", "capped");
    for (const auto& [key, value] : keys) p.set(key, value);
    require_no_conflict(facts_of(p.job));
    for (const KindFamily& family : p.families) {
      if (family.key != "aggregator.kind") continue;
      if (const auto& of_kind = family.find(p.job.aggregator.kind).check) of_kind(p.job);
    }
  };
  check({{"aggregator.cap", "10"}});
  expect_error<InvalidArgument>([&] { check({}); }, {"aggregator.cap"});
  for (const std::string kind : {"propfair", "qfedavg", "term", "fedmgda+"}) {
    expect_error<InvalidArgument>(
        [&] {
          check({{"aggregator.cap", "10"}, {"aggregator.kind", kind}});
        },
        {kind, "aggregator.weights"});
  }
  expect_error<InvalidArgument>(
      [&] {
        check({{"aggregator.cap", "10"}, {"aggregator.before", "nnm"}});
      },
      {"aggregator.weights"});
  expect_error<InvalidArgument>(
      [&] {
        check({{"aggregator.cap", "10"}, {"sampler.kind", "vrb"}});
      },
      {"vrb"});
  EXPECT_EQ(private_weight({.weights = ClientWeights::kCapped, .cap = 10}, 4), 0.4);
  EXPECT_EQ(private_weight({.weights = ClientWeights::kCapped, .cap = 10}, 40), 1);
  EXPECT_EQ(private_weight({.weights = ClientWeights::kUniform, .cap = 10}, 4), 1);
}

bool says(const std::vector<std::string>& lines, const std::string& part) {
  for (const std::string& line : lines) {
    if (line.find(part) != std::string::npos) return true;
  }
  return false;
}

TEST(PrivacyOfJobs, ARunSaysWhatItsGuaranteeDoesNotCover) {
  PrivateJob p;
  auto lines = privacy_notices(p.job, 100);
  EXPECT_TRUE(says(lines, "privacy.seed = auto: not private: the seed is known"));
  EXPECT_FALSE(says(lines, "may be published"));
  EXPECT_FALSE(says(lines, "choose"));
  EXPECT_FALSE(says(lines, "delta"));
  EXPECT_FALSE(says(lines, "not private on a computer"));
  p.set("run.target", "loss<=1").set("run.patience", "3").set("evaluate.best", "loss");
  p.set("privacy.delta", "0.02").set("privacy.mechanism", "gaussian");
  p.set("privacy.seed", "system");
  lines = privacy_notices(p.job, 100);
  EXPECT_TRUE(says(lines, "run.target, run.patience, evaluate.best choose among"));
  EXPECT_TRUE(says(lines, "privacy.delta = 0.02 is above 1 / 100 clients"));
  EXPECT_TRUE(says(lines, "gaussian is not private on a computer"));
  EXPECT_TRUE(says(lines, "nobody knows the noise, and"));
  p.set("privacy.mechanism", "skellam").set("sampler.kind", "poisson");
  lines = privacy_notices(p.job, 100);
  EXPECT_TRUE(says(lines, "may be published, and nothing else: hanse publish"));
  EXPECT_TRUE(says(lines, "nobody knows the noise, or who takes part"));
  p.set("privacy.kind", "none");
  EXPECT_TRUE(privacy_notices(p.job, 100).empty());
}

}  // namespace
}  // namespace hanse
