// What rules and samplers are told of the participants' work, and what they add to the tables.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/protocol/checked_rules.hpp"
#include "hanse/rules/sampling/basic.hpp"
#include "protocol/resume.hpp"
#include "protocol/timed_turnout.hpp"
#include "protocol/tiny_training.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

using Ids = std::vector<int64_t>;
using Numbers = std::vector<double>;

// Weighs fresh and fast work most: 1/((1 + staleness) duration). Counts its rounds.
class ByTimes final : public Aggregator {
 public:
  Mix mix(const RoundReport& report) override {
    ++rounds;
    staleness.assign(report.staleness.begin(), report.staleness.end());
    Mix mix{.coefficients = Numbers(report.clients.size(), 0.1)};
    for (std::size_t i = 0; i < report.durations.size(); ++i) {
      const auto tau = static_cast<double>(report.staleness[i]);
      mix.coefficients[i] = 1 / ((1 + tau) * report.durations[i]);
    }
    coefficients = mix.coefficients;
    return mix;
  }
  void add_columns(Columns& columns) const override {
    columns.add_to_rounds([this] { return Metrics{{"rule_rounds", rounds}}; }, 3);
  }

  double rounds = 0;
  Ids staleness;
  Numbers coefficients;

 private:
  void visit(StateFields& fields) override { fields.one("rounds", rounds); }
};

// Every client, and it keeps what it observed.
class Witness final : public ClientSampler {
 public:
  Witness() : ClientSampler(kClients, kClients) {}
  Draw draw(int64_t round, int64_t n, RandomStream& stream) override {
    return inner_->draw(round, n, stream);
  }
  Draw impose(int64_t n, std::span<const int64_t> draws) override {
    return inner_->impose(n, draws);
  }
  double probability(int64_t client) const override { return inner_->probability(client); }
  void toggle(std::span<const int64_t> clients) override { inner_->toggle(clients); }
  const ClientSet& available() const override { return inner_->available(); }
  void observe(const Draw&, const Feedback& feedback) override {
    staleness.assign(feedback.staleness.begin(), feedback.staleness.end());
    durations.assign(feedback.durations.begin(), feedback.durations.end());
  }
  void add_columns(Columns& columns) const override {
    columns.add_to_rounds([this] {
      return Metrics{{"longest", durations.empty() ? std::nan("") : durations.back()}};
    });
  }

  Ids staleness;
  Numbers durations;

 private:
  std::unique_ptr<ClientSampler> inner_ = make_full_sampler(kClients);
};

TinyJob told_job() {
  TinyJob job;
  job.own_sampler = [] { return std::make_unique<Witness>(); };
  job.own_rule = [] { return std::make_unique<ByTimes>(); };
  return job;
}

// Client i is i % 3 rounds behind and takes i + round seconds.
WorkTimes times_of(int64_t round, const Draw& draw) {
  WorkTimes times;
  for (const int64_t client : draw.clients) {
    times.staleness.push_back(client % 3);
    times.durations.push_back(static_cast<double>(client + round));
  }
  return times;
}

std::unique_ptr<Turnout> make_timed() { return std::make_unique<TimedTurnout>(times_of); }

TEST(Told, RulesAndSamplersHowStaleAndHowLongTheWorkWas) {
  TinyJob job = told_job();
  job.turnout = make_timed;
  run_threads(3, [&](Communicator& comm) {
    TinyTraining training(comm, job);
    for (int64_t round = 1; round <= 3; ++round) {
      training.trainer->round(false);
      if (comm.rank() != 0) continue;
      const WorkTimes times = times_of(round, make_full_sampler(kClients)->impose(
                                                  kClients, Ids{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
      const auto& rule = dynamic_cast<ByTimes&>(*training.aggregator);
      const auto& sampler = dynamic_cast<Witness&>(*training.sampler);
      EXPECT_EQ(rule.staleness, times.staleness);
      EXPECT_EQ(rule.coefficients[4], 1 / (2.0 * static_cast<double>(4 + round)));
      EXPECT_EQ(sampler.staleness, times.staleness);
      EXPECT_EQ(sampler.durations, times.durations);
    }
  });
}

TEST(Told, NothingWhereNobodyKnowsTheTimes) {
  const auto comm = make_single_communicator();
  TinyTraining training(*comm, told_job());
  training.trainer->round(false);
  EXPECT_TRUE(dynamic_cast<ByTimes&>(*training.aggregator).staleness.empty());
  EXPECT_TRUE(dynamic_cast<Witness&>(*training.sampler).durations.empty());
}

double column(const Metrics& numbers, const std::string& name) {
  const auto found = std::ranges::find(numbers, name, &Metrics::value_type::first);
  return found == numbers.end() ? -1 : found->second;
}

// A column that begins with round 3 has no number before it, and the same ones behind a resume.
TEST(Told, RulesAndSamplersAddColumns) {
  TinyJob job = told_job();
  job.turnout = make_timed;
  const auto comm = make_single_communicator();
  TinyTraining whole(*comm, job), first(*comm, job), second(*comm, job);
  const auto play = [&](TinyTraining& training, int64_t round) {
    const Metrics more = training.trainer->round(false).more;
    EXPECT_EQ(more.size(), whole.trainer->columns().of_round(0).size());
    const double rounds = column(more, "rule_rounds");
    EXPECT_EQ(std::isnan(rounds), round < 3);
    EXPECT_TRUE(round < 3 || rounds == static_cast<double>(round)) << rounds;
    EXPECT_EQ(column(more, "longest"), static_cast<double>(10 + round));
  };
  for (int64_t round = 1; round <= 4; ++round) play(whole, round);
  for (int64_t round = 1; round <= 2; ++round) play(first, round);
  State state;
  first.trainer->save(state);
  second.trainer->resume(state);
  for (int64_t round = 3; round <= 4; ++round) play(second, round);
}

// Rules that are checked add what they would add.
TEST(Told, CheckedRulesAddTheirColumns) {
  const auto round = std::make_shared<int64_t>(1);
  const auto rule = checked_aggregator(
      "rule", [] { return std::make_unique<ByTimes>(); }, round);
  const auto sampler = checked_sampler(
      "sampler", [] { return std::make_unique<Witness>(); }, round);
  Columns columns;
  rule->add_columns(columns);
  sampler->add_columns(columns);
  EXPECT_EQ(columns.of_round(0).size(), 2U);
}

}  // namespace
}  // namespace hanse
