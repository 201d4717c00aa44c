#include "protocols.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "assemble.hpp"
#include "hanse/base/error.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/bandits.hpp"
#include "hanse/kinds/experts.hpp"

namespace hanse {

namespace {

void bandit_keys(KindKeys& keys, Job& job) {
  keys.add("run.repeats", job.run.repeats, at_least(1),
           "bandits played at once, of seeds run.seed, run.seed + 1, ...");
}

// Combinations that have no meaning for a bound.
void check_bound(const Job& job) {
  const std::string& protocol = job.run.protocol;
  const bool keeps_own = protocol_kind(job).bound == Bound::kLocal;
  const bool own = job.evaluate.view == "auto" ? keeps_own : job.evaluate.view == "personalised";
  if (own != keeps_own) {
    throw InvalidArgument(fmt::format("a {} run has {}", protocol,
                                      own ? "one model for all" : "no shared model to evaluate"),
                          "evaluate.view", "leave it at auto");
  }
  if (job.evaluate.regret) {
    throw InvalidArgument(fmt::format("a {} run estimates nothing from a sample", protocol),
                          "evaluate.regret", "only run.protocol = federated has it");
  }
}

bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const Reading& bound_reading() {
  static const Reading reading{
      .sections = {"run", "data", "federation", "model", "client", "comm", "evaluate", "checkpoint",
                   "report"},
      .keys = {"server.role", "sampler.kind", "sampler.per-round", "sampler.availability"},
      .except = {"client.update", "client.personal"}};
  return reading;
}

const std::vector<ProtocolKind>& protocols() {
  static const std::vector<ProtocolKind> kinds{
      {{"federated", "rounds: draw, train, mix, step"},
       {{"run", "data", "federation", "model", "client", "sampler", "aggregator", "server", "comm",
         "evaluate", "checkpoint", "report"}},
       std::nullopt,
       assemble_federated},
      {{"online", "every node its own model on a stream of batches", nullptr, check_online},
       {.sections = {"run", "data", "federation", "model", "online", "evaluate", "checkpoint",
                     "report"},
        .except = {"evaluate.view"}},
       std::nullopt,
       assemble_online},
      {{"centralized", "a bound: one model on everybody's samples, as many a round", nullptr,
        check_bound},
       bound_reading(),
       Bound::kCentralized,
       assemble_federated},
      {{"local", "a bound: every client alone, nothing is mixed", nullptr, check_bound},
       bound_reading(),
       Bound::kLocal,
       assemble_federated},
      {{"bandit", "clients pull arms and synchronize what they know", bandit_keys, check_bandit},
       {.sections = {"run", "data", "federation", "bandit", "evaluate", "checkpoint", "report"},
        .except = {"evaluate.view"}},
       std::nullopt,
       assemble_bandit},
  };
  return kinds;
}

}  // namespace

bool Reading::reads(const std::string& key) const {
  if (holds(keys, key)) return true;
  return holds(sections, key.substr(0, key.find('.'))) && !holds(except, key);
}

const ProtocolKind& protocol_kind(const Job& job) {
  return find_kind(protocols(), "run.protocol", job.run.protocol);
}

KindFamily protocol_family() {
  return {.name = "protocols",
          .key = "run.protocol",
          .help = "how ranks work together",
          .choice = [](Job& job) -> std::string& { return job.run.protocol; },
          .rows = rows_of(protocols())};
}

std::unique_ptr<Assembly> assemble(const Job& job, Communicator& comm) {
  return protocol_kind(job).assemble(job, comm);
}

}  // namespace hanse
