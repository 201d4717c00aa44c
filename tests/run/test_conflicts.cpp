// What does not go together: refused before any data are read, and only there.
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/client/local_update.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/kinds/aggregators.hpp"
#include "hanse/kinds/conflicts.hpp"
#include "hanse/kinds/own_rules.hpp"
#include "hanse/run/assembly.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/load_job.hpp"
#include "support/errors.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

// Six clients, of whom five take part. Kinds that need a number have one.
void fill_job(Job& job) {
  job.run.seed = 3;
  job.data.kind = "random";
  job.data.shape = {1, 6, 6};
  job.data.classes = 3;
  job.federation.clients = 7;
  job.federation.held_out.number = 1;  // fltrust's
  job.federation.partition = "power-law";
  job.federation.samples = 12;
  job.model.kind = "linear";
  job.client.batch = 4;
  job.client.mu = 0.5;
  job.client.momentum = 0;
  job.sampler.per_round = 5;
  job.sampler.learning.horizon = 2;
  job.sampler.formula = "lambda + a + 0.1 / age";
  job.aggregator.formula = "n * exp(F) / (1 + norm)";
  job.attack.clients = AttackingClients::parse("1");
  job.attack.target = 1;
  job.attack.patch = 1;
  job.privacy.noise = 1;
  job.async.concurrency = 3;
  job.async.buffer = 2;
  job.client.schedule.length = 5;
}

// The families that say what a round is made of.
std::vector<KindFamily> families_of_rounds() {
  const std::set<std::string> keys = {
      "sampler.kind",     "aggregator.kind",  "attack.kind",     "privacy.kind", "client.update",
      "client.optimizer", "server.optimizer", "client.schedule", "clock.kind",   "async.kind"};
  std::vector<KindFamily> found;
  for (const KindFamily& family : catalog()) {
    if (keys.contains(family.key)) found.push_back(family);
  }
  EXPECT_EQ(found.size(), keys.size());
  return found;
}

// Does the job's update need a hidden layer?
bool represents(const Job& job) {
  return job.client.kind == "moon" || job.client.kind == "fedproto";
}

// The words of the error; empty: there is none.
template <class Function>
std::string refusal_of(const Function& function) {
  try {
    function();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

// No pair of kinds that `check` lets pass is refused once the data are there.
TEST(Conflicts, EveryPairOfKindsIsRefusedBeforeTheDataAreRead) {
  const auto single = make_single_communicator();
  const std::vector<KindFamily> families = families_of_rounds();
  int64_t refused = 0, made = 0;
  for (std::size_t a = 0; a < families.size(); ++a) {
    for (std::size_t b = a + 1; b < families.size(); ++b) {
      for (const auto& one : families[a].rows) {
        for (const auto& other : families[b].rows) {
          Job job;
          fill_job(job);
          families[a].choice(job) = one.name;
          families[b].choice(job) = other.name;
          if (job.aggregator.kind == "monna") job.sampler.per_round = 6;  // it trusts one of all
          const bool chooses = families[a].key == "model.kind" || families[b].key == "model.kind";
          const bool needs_linear = job.sampler.kind == "lipschitz";
          if (represents(job) && !chooses && !needs_linear) job.model.kind = "mlp";
          const bool own = is_own_rule(one.name) || is_own_rule(other.name);
          if (own) continue;  // they need a file
          const std::string pair = one.name + " with " + other.name;
          if (!refusal_of([&] { check_job(job); }).empty()) {
            ++refused;
            continue;
          }
          EXPECT_EQ(refusal_of([&] { assemble(job, *single); }), "") << pair;
          ++made;
        }
      }
    }
  }
  EXPECT_EQ(refused, 879);
  EXPECT_EQ(made, 3054);
}

// The facts about an update are what the update says of itself.
TEST(Conflicts, FactsAreThoseOfTheObjects) {
  const auto single = make_single_communicator();
  for (const std::string update :
       {"sgd", "prox", "scaffold", "ditto", "fednova", "feddyn", "fednew", "fednl", "apfl",
        "pfedme", "per-fedavg", "fedsam", "fedntd", "moon", "fedproto"}) {
    for (const std::string rule : {"fedavg", "dqn-fed", "krum", "fedlf"}) {
      for (const std::string option :
           {"", "momentum", "kept", "adam", "accumulate", "personal", "direction"}) {
        Job job;
        fill_job(job);
        job.client.kind = update;
        if (represents(job)) job.model.kind = "mlp";
        job.aggregator.kind = rule;
        if (update == "fednew" || update == "fednl") job.sampler.kind = "full";
        if (option == "momentum" || option == "kept") job.client.momentum = 0.5;
        if (option == "kept") job.client.optimizer.state = Moments::kKept;
        if (option == "adam") job.client.optimizer.kind = "adam";
        if (option == "accumulate") job.client.accumulate = 2;
        if (option == "personal") job.client.personal = "*.bias";
        if (option == "direction") job.client.global_momentum = 0.5;
        const JobFacts facts = facts_of(job);
        if (conflict_of(facts)) continue;
        const auto parts = assemble(job, *single);
        const auto made = make_update(job, parts->federation, *parts->model, facts.rule);
        const std::string what = update + ", " + rule + ", " + option;
        EXPECT_EQ(facts.sends_directions(), made->sends_direction()) << what;
        EXPECT_TRUE(facts.keeps_state() == (made->state_width() > 0) || facts.rule.rates) << what;
        EXPECT_EQ(facts.update.control && !facts.rule.rates, made->control_width() > 0) << what;
        EXPECT_EQ(facts.finds_squares(), made->finds_squares()) << what;
        EXPECT_EQ(facts.trains_side_by_side(), made->trains_side_by_side()) << what;
        EXPECT_EQ(facts.rule.full, make_aggregator(job, 6, 1)->needs().full) << what;
      }
    }
  }
}

// All names in braces, and the keys that are to change, are keys of a job.
TEST(Conflicts, NameKeys) {
  const KeyedJob job(catalog());
  for (const Conflict& conflict : conflicts()) {
    const Fact& other = *conflict.other;
    EXPECT_TRUE(conflict.key == nullptr || job.table.contains(conflict.key)) << other.name;
    EXPECT_TRUE(other.key_in != nullptr || job.table.contains(other.key)) << other.name;
    for (const std::string text : {conflict.what, conflict.hint}) {
      for (std::size_t at = 0; (at = text.find('{', at)) != std::string::npos; ++at) {
        const std::string name = text.substr(at + 1, text.find('}', at) - at - 1);
        EXPECT_TRUE(name == "key" || (name == "detail" && other.detail != nullptr) ||
                    job.table.contains(name))
            << text;
      }
    }
  }
}

TEST(Conflicts, AreToldWithTheJobsWords) {
  Job job;
  fill_job(job);
  job.aggregator.kind = "fedlf";
  job.attack.kind = "ipm";
  expect_error<InvalidArgument>(
      [&] { require_no_conflict(facts_of(job)); },
      {"fedlf weighs more than the round's updates, which attackers forge", "aggregator.kind",
       "an attack on the training"});
  job.attack.kind = "none";
  job.run.round_seconds = 1;
  job.client.kind = "scaffold";
  job.aggregator.kind = "fedavg";
  expect_error<InvalidArgument>([&] { require_no_conflict(facts_of(job)); },
                                {"scaffold needs every participant's update", "client.update",
                                 "use sgd or prox, or run.round-seconds = 0"});
  job.run.round_seconds = 0;
  EXPECT_FALSE(conflict_of(facts_of(job)));
}

// Only the file tells what a rule of the user needs.
TEST(Conflicts, AskAgainOnceARuleIsMade) {
  Job job;
  fill_job(job);
  job.aggregator.kind = "python";
  job.async.kind = "fedbuff";
  job.clock.kind = "virtual";
  EXPECT_FALSE(conflict_of(facts_of(job)));
  EXPECT_EQ(conflict_of(facts_of(job, AggregatorNeeds{.columns = true}))->what,
            "a step by columns cannot count old updates less");
}

}  // namespace
}  // namespace hanse
