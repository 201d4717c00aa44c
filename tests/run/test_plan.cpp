// The cost model of `hanse plan`, on machines with round numbers.
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/job/job.hpp"
#include "hanse/run/engine_choice.hpp"
#include "run/plan/machines.hpp"
#include "run/plan/round_times.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

constexpr double kPieceSeconds = kPieceBytes / 1e6;

// A network of 1 MB/s, and a hundred times faster memory.
Cluster cluster(int64_t ranks, int64_t hosts, double cores = 1e9) {
  return {.ranks = ranks,
          .hosts = hosts,
          .cores = cores,
          .network = {.latency_s = 1, .rate = 1e6},
          .memory = {.latency_s = 0.01, .rate = 1e8}};
}

TEST(PlanTransfers, NothingForOneRank) {
  EXPECT_EQ(transfer_s(cluster(1, 1), 1e9), 0);
  EXPECT_EQ(small_s(cluster(1, 1)), 0);
  EXPECT_EQ(transfer_s(cluster(4, 2), 0), 0);
}

// A chain: the message's time once, and a piece's time and a latency for each host further on.
TEST(PlanTransfers, ChainOfHosts) {
  EXPECT_DOUBLE_EQ(transfer_s(cluster(2, 2), 10e6), 10 + 1 + kPieceSeconds);
  EXPECT_DOUBLE_EQ(transfer_s(cluster(5, 5), 10e6), 10 + 4 * (1 + kPieceSeconds));
}

// More hosts than pieces: a binary tree sends all of it twice, and has fewer levels.
TEST(PlanTransfers, TreeOfManyHosts) {
  EXPECT_DOUBLE_EQ(transfer_s(cluster(7, 7), kPieceBytes),
                   2 * kPieceSeconds + 2 * (1 + 2 * kPieceSeconds));
  EXPECT_LT(transfer_s(cluster(1024, 1024), 1e6), 30);
}

TEST(PlanTransfers, RanksOfAHost) {
  EXPECT_DOUBLE_EQ(transfer_s(cluster(2, 1), 10e6), 0.1 + 0.01 + kPieceSeconds / 100);
  EXPECT_DOUBLE_EQ(transfer_s(cluster(3, 1), 10e6), 0.2 + 0.01 + 2 * kPieceSeconds / 100);
  // The network is what takes time; the host's tree adds its levels.
  EXPECT_DOUBLE_EQ(transfer_s(cluster(6, 2), 10e6),
                   10 + (1 + kPieceSeconds) + (0.01 + 2 * kPieceSeconds / 100));
}

// The ranks of a host add up what they have before it is sent.
TEST(PlanTransfers, ALinkCarriesAMessageOnceWhateverTheRanks) {
  EXPECT_EQ(link_bytes(cluster(5, 5), 10e6), 10e6);
  EXPECT_EQ(link_bytes(cluster(40, 5), 10e6), 10e6);
  EXPECT_EQ(link_bytes(cluster(40, 5), kPieceBytes), 2 * kPieceBytes);
  EXPECT_EQ(link_bytes(cluster(2, 2), 100), 100);
  EXPECT_EQ(link_bytes(cluster(8, 1), 10e6), 0);
}

TEST(PlanTransfers, NoFasterThanTheMemory) {
  Cluster fast = cluster(5, 5);
  fast.network.rate = 1e10;
  EXPECT_DOUBLE_EQ(transfer_s(fast, 1e9), 10 + 4 * (1 + kPieceBytes / 1e10));
}

// Both directions of a link work at once; within a host the cores do one after the other.
TEST(PlanTransfers, ExchangesOverlapBetweenHosts) {
  const Cluster hosts = cluster(5, 5);
  const double fill_s = 4 * (2 + 2 * kPieceSeconds);
  EXPECT_DOUBLE_EQ(exchange_s(hosts, 20e6, 10e6, 3), 20 + fill_s);
  EXPECT_DOUBLE_EQ(exchange_s(hosts, 10e6, 30e6, 3), 30 + fill_s);
  EXPECT_DOUBLE_EQ(exchange_s(hosts, 10e6, 10e6, 50), 50 + fill_s);
  const Cluster host = cluster(2, 1);
  EXPECT_DOUBLE_EQ(exchange_s(host, 10e6, 20e6, 3),
                   transfer_s(host, 10e6) + transfer_s(host, 20e6) + 3);
  EXPECT_EQ(exchange_s(cluster(1, 1), 10e6, 10e6, 3), 3);
}

TEST(PlanTransfers, ShortMessagesClimbATree) {
  EXPECT_DOUBLE_EQ(small_s(cluster(2, 2)), 1);
  EXPECT_DOUBLE_EQ(small_s(cluster(5, 5)), 3);
  EXPECT_DOUBLE_EQ(small_s(cluster(16, 4)), 2 + 0.02);
}

using Loads = std::vector<double>;

TEST(PlanLoads, TheBusiestRankOrHostDecides) {
  EXPECT_EQ(busiest(cluster(4, 1, 4), Loads{1, 5, 2, 3}), 5);
  EXPECT_EQ(busiest(cluster(4, 1, 2), Loads{1, 5, 2, 3}), 5.5);  // 11 on two cores
  EXPECT_EQ(busiest(cluster(4, 2, 1), Loads{1, 5, 4, 3}), 7);    // the second host
  EXPECT_EQ(busiest(cluster(2, 2, 0.5), Loads{1, 5}), 10);       // half a core
  Cluster threaded = cluster(4, 1, 4);
  threaded.threads = 2;  // two ranks at once
  EXPECT_EQ(busiest(threaded, Loads{1, 5, 2, 4}), 6);
}

TEST(PlanLoads, ADedicatedServerTrainsNobody) {
  Cluster some = cluster(3, 3);
  EXPECT_EQ(loads_of(some, Loads{1, 2, 4}, std::vector<int64_t>{0, 1, 0}), (Loads{5, 2, 0}));
  some.dedicated = true;
  EXPECT_EQ(some.workers(), 2);
  EXPECT_EQ(loads_of(some, Loads{1, 2, 4}, std::vector<int64_t>{0, 1, 0}), (Loads{0, 5, 2}));
}

Cluster planned(const PlanOptions& options, const Cluster& started,
                ServerRole role = ServerRole::kAuto) {
  Job job;
  job.server.role = role;
  return planned_cluster(options, job, started);
}

TEST(PlanMachines, OptionsWinAndRanksGetTheirCores) {
  const Cluster here = cluster(2, 1, 4);
  EXPECT_EQ(planned({}, here).ranks, 2);
  EXPECT_EQ(planned({}, here).hosts, 1);
  EXPECT_EQ(planned({.ranks = 9}, here).hosts, 3);  // four cores each
  EXPECT_EQ(planned({.ranks = 9, .cores = 16}, here).hosts, 1);
  EXPECT_EQ(planned({.ranks = 9, .hosts = 9}, here).hosts, 9);
  EXPECT_EQ(planned({.ranks = 3, .cores = 0.5}, here).hosts, 3);
  Cluster threaded = here;
  threaded.threads = 2;
  EXPECT_EQ(planned({.ranks = 9}, threaded).hosts, 5);
  expect_error<InvalidArgument>([&] { planned({.ranks = 2, .hosts = 3}, here); },
                                {"3 hosts", "2 ranks", "--hosts", "--ranks=3"});
}

TEST(PlanMachines, TheServerTrainsOnOneHostOnly) {
  const Cluster here = cluster(2, 1, 4);
  EXPECT_FALSE(planned({.ranks = 4}, here).dedicated);
  EXPECT_TRUE(planned({.ranks = 8}, here).dedicated);
  EXPECT_FALSE(planned({.ranks = 8}, here, ServerRole::kShared).dedicated);
  EXPECT_TRUE(planned({.ranks = 4}, here, ServerRole::kDedicated).dedicated);
  EXPECT_FALSE(planned({.ranks = 1}, here, ServerRole::kDedicated).dedicated);
}

TEST(PlanMachines, LinksAreGivenOrAssumed) {
  const MachineSpeeds alone{.add_s = 2e-10};
  const Cluster one = cluster(1, 1);
  Cluster plan = cluster(8, 4);
  EXPECT_EQ(set_links({.link_gbit = 8, .latency_us = 5}, alone, one, plan), "given");
  EXPECT_DOUBLE_EQ(plan.network.rate, 1e9);
  EXPECT_DOUBLE_EQ(plan.network.latency_s, 5e-6);
  EXPECT_DOUBLE_EQ(plan.memory.rate, 2.5e9);  // in and out again
  EXPECT_NE(set_links({}, alone, one, plan).find("assumed"), std::string::npos);
  EXPECT_DOUBLE_EQ(plan.network.rate, 1.25e9);

  MachineSpeeds measured = alone;
  measured.link = {.latency_s = 3, .rate = 7};
  EXPECT_NE(set_links({}, measured, cluster(2, 1), plan).find("assumed"), std::string::npos);
  EXPECT_EQ(plan.memory.rate, 7);
  EXPECT_EQ(set_links({}, measured, cluster(2, 2), plan), "measured");
  EXPECT_EQ(plan.network.rate, 7);
  EXPECT_DOUBLE_EQ(plan.memory.rate, 2.5e9);
  EXPECT_EQ(set_links({.link_gbit = 80}, measured, cluster(2, 2), plan), "given");
  EXPECT_DOUBLE_EQ(plan.network.rate, 1e10);
  EXPECT_EQ(plan.network.latency_s, 3);
}

// Eight clients of ten samples, all of them in each round, one pass over them.
struct EightClients {
  EightClients() : host(make_single_communicator()) {
    job.data.kind = "random";
    job.data.shape = {2};
    job.data.classes = 2;
    job.data.test_fraction = 0;
    job.federation.clients = 8;
    job.federation.samples = 10;
    job.federation.partition = "iid";
    job.sampler.kind = "full";
    job.client.epochs = 1;
    federation = Federation::load(job.data, job.federation, 1, *host);
    kind.facts = {.clients = 8, .participants = 8, .n_params = 100};
  }
  PlannedTimes estimate(const Rates& rates, const Cluster& started, const Cluster& planned) {
    const Workload workload(job, federation, false);
    return estimate_round(kind, workload, rates, started, planned);
  }

  Job job;
  std::unique_ptr<Communicator> host;
  Federation federation;
  RoundKind kind;
};

TEST(PlanRound, TheBusiestRanksSamples) {
  EightClients eight;
  const Workload workload(eight.job, eight.federation, false);
  EXPECT_EQ(workload.participants, 8);
  EXPECT_EQ(workload.drawn_s(cluster(1, 1), 1, 0), 80);
  EXPECT_EQ(workload.drawn_s(cluster(3, 1), 1, 0), 30);
  EXPECT_EQ(workload.drawn_s(cluster(8, 1, 2), 1, 0), 40);  // two cores
  EXPECT_EQ(workload.most_on_rank(cluster(3, 1)), 3);
  EXPECT_EQ(eight.estimate({.sample_s = 1}, cluster(1, 1), cluster(4, 1)).evaluation_s, 20);
}

// The losses of a rule, and all clients' training where the sampler asks for it.
TEST(PlanRound, WhatComesBeforeTraining) {
  EightClients eight;
  const Workload losses(eight.job, eight.federation, true);
  EXPECT_EQ(losses.drawn_s(cluster(3, 1), 1, 0.5), 45);
  eight.job.evaluate.regret = true;
  const Workload all(eight.job, eight.federation, false);
  EXPECT_EQ(all.training_s(cluster(4, 1), {.train_sample_s = 1}), 40);
}

// Over the link that was found, the exchange takes as long as it did.
TEST(PlanRound, TheLinkIsThatOfTheRounds) {
  EightClients eight;
  eight.kind.facts.n_params = 1'000'000;
  for (const int64_t hosts : {1, 3}) {
    Cluster started = cluster(3, hosts);
    Rates rates{.means = {.transfer_s = 7}, .machine = {.add_s = 1e-15}};
    rates.machine.link = measured_link(eight.kind, rates, started);
    set_links({}, rates.machine, started, started);
    EXPECT_NEAR(eight.estimate(rates, started, started).exchange_s, 7, 1e-6) << hosts;
  }
  EXPECT_EQ(measured_link(eight.kind, {.means = {.transfer_s = 7}}, cluster(1, 1)).rate, 0);
}

// Whole rounds of the started ranks are met; what the model does not explain is carried over.
TEST(PlanRound, WhatRoundsTookBeyondTheModelIsAdded) {
  EightClients eight;
  Rates rates{.whole = true, .means = {.round_s = 5, .server_s = 0.1}, .train_sample_s = 0.01};
  const PlannedTimes here = eight.estimate(rates, cluster(1, 1), cluster(1, 1));
  EXPECT_DOUBLE_EQ(here.training_s, 0.8);
  EXPECT_DOUBLE_EQ(here.exchange_s, 0.1);
  EXPECT_DOUBLE_EQ(here.round_s(), 5);
  const PlannedTimes there = eight.estimate(rates, cluster(1, 1), cluster(4, 1));
  EXPECT_DOUBLE_EQ(there.training_s, 0.2);
  EXPECT_GT(there.small_s, here.small_s);
  rates.means.round_s = 0.1;  // less than the model: nothing is taken away
  EXPECT_DOUBLE_EQ(eight.estimate(rates, cluster(1, 1), cluster(1, 1)).round_s(), 0.9);
  rates.whole = false;
  rates.means.round_s = 5;
  EXPECT_DOUBLE_EQ(eight.estimate(rates, cluster(1, 1), cluster(1, 1)).round_s(), 0.9);
}

}  // namespace
}  // namespace hanse
