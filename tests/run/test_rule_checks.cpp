// run.check-rules: every aggregator, sampler and server optimizer of a run is pure.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/job/keyed_job.hpp"
#include "hanse/run/assembly.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/load_job.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

using Choices = std::vector<std::pair<std::string, std::string>>;

const Choices kSmall = {{"run.check-rules", "true"},
                        {"data.kind", "random"},
                        {"data.shape", "5"},
                        {"data.classes", "3"},
                        {"federation.clients", "6"},
                        {"federation.samples", "12"},
                        {"federation.partition", "power-law"},
                        {"model.kind", "linear"},
                        {"client.batch", "4"},
                        {"sampler.per-round", "3"},
                        {"server.lr", "0.1"},
                        {"run.rounds", "8"},
                        {"aggregator.formula", "n * exp(F) / round"},
                        {"sampler.formula", "lambda * (1 + age)"},
                        {"sampler.horizon", "8"}};

// The model after eight rounds on so many ranks; the failure's text when one fails.
std::vector<float> train(const Choices& choices, int ranks, std::string& failure) {
  std::vector<float> model;
  run_threads(ranks, [&](Communicator& comm) {
    KeyedJob job(catalog());
    for (const auto& [key, value] : kSmall) job.table.set(key, value, key);
    for (const auto& [key, value] : choices) job.table.set(key, value, key);
    job.table.resolve();
    check_job(job);
    const auto parts = assemble(job, comm);
    Protocol& protocol = parts->protocol();
    protocol.initialize_model();
    for (int64_t round = 0; round < job.run.rounds; ++round) {
      const bool failed = protocol.round(false).failed;
      if (comm.allreduce_one(static_cast<int64_t>(failed), ReduceOp::kMax) == 0) continue;
      if (comm.rank() != 0) return;
      try {
        std::rethrow_exception(protocol.failure());
      } catch (const std::exception& error) {
        failure = error.what();
      }
      return;
    }
    const auto row = protocol.model_row();
    if (comm.rank() == 0) model.assign(row.begin(), row.end());
  });
  return model;
}

void expect_pure(const Choices& choices, int ranks = 1) {
  std::string text, failure;
  for (const auto& [key, value] : choices) text += key + " = " + value + " ";
  SCOPED_TRACE(text);
  const auto checked = train(choices, ranks, failure);
  EXPECT_EQ(failure, "");
  Choices plain = choices;
  plain.emplace_back("run.check-rules", "false");
  EXPECT_EQ(train(plain, 1, failure), checked);  // and the check changes nothing
  EXPECT_FALSE(checked.empty());
}

// Those of Hanse's own; plugins are tried where there are some (tests/plugin).
std::vector<std::string> kinds_of(const std::string& key) {
  std::vector<std::string> kinds;
  for (const KindFamily& family : catalog()) {
    if (family.key == key) kinds = names_of(family.rows);
  }
  std::erase_if(kinds, [](const auto& kind) { return kind == "python" || kind == "plugin"; });
  return kinds;
}

TEST(RuleChecks, EveryAggregatorIsPure) {
  for (const auto& kind : kinds_of("aggregator.kind")) {
    // Some robust rules cannot do with the few that are there, and fltrust trusts a further client.
    Choices choices{{"aggregator.kind", kind}, {"aggregator.shortfall", "skip"}};
    if (kind == "fltrust") choices.emplace_back("federation.held-out", "1");
    choices.emplace_back("sampler.kind", "full");
    expect_pure(choices);
    if (kind == "aaggff-s") continue;
    choices.back() = {"sampler.availability", "0.6"};
    expect_pure(choices, 2);
  }
  for (const char* variant : {"reference", "corrected"}) {
    expect_pure({{"aggregator.kind", "aaggff-d"}, {"aggregator.variant", variant}});
  }
  expect_pure({{"aggregator.kind", "afl"}, {"aggregator.variant", "reference"}});
}

TEST(RuleChecks, EverySamplerIsPure) {
  for (const auto& kind : kinds_of("sampler.kind")) {
    for (const char* there : {"always", "0.6"}) {
      for (const char* replacement : {"true", "false"}) {
        expect_pure({{"sampler.kind", kind},
                     {"sampler.availability", there},
                     {"sampler.replacement", replacement}});
      }
    }
    expect_pure({{"sampler.kind", kind}, {"sampler.a-max", "running"}}, 2);
  }
}

TEST(RuleChecks, EveryServerOptimizerIsPure) {
  for (const auto& kind : kinds_of("server.optimizer")) {
    for (const int ranks : {1, 3}) expect_pure({{"server.optimizer", kind}}, ranks);
    expect_pure({{"server.optimizer", kind}, {"client.update", "scaffold"}});
  }
  for (const char* start : {"hessian", "zero"}) {
    expect_pure({{"client.update", "fednl"},
                 {"client.hessian-start", start},
                 {"client.weight-decay", "0.01"},
                 {"sampler.kind", "full"}});
  }
}

}  // namespace
}  // namespace hanse
