#include "protocols.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "assemble.hpp"
#include "hanse/base/error.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/bandits.hpp"
#include "hanse/kinds/experts.hpp"
#include "hanse/kinds/families.hpp"
#include "hanse/kinds/statistics.hpp"
#include "hanse/model/frozen_cache.hpp"
#include "hanse/model/threads.hpp"
#include "hanse/run/catalog.hpp"

namespace hanse {

namespace {

// Refuses combinations that have no meaning for a bound.
void check_bound(const Job& job) {
  const std::string& protocol = job.run.protocol;
  const bool keeps_own = protocol_kind(job).bound == Bound::kLocal;
  const EvaluateView view = job.evaluate.view;
  const bool own = view == EvaluateView::kAuto ? keeps_own : view == EvaluateView::kPersonalised;
  if (own != keeps_own) {
    throw InvalidArgument(fmt::format("a {} run has {}", protocol,
                                      own ? "one model for all" : "no shared model to evaluate"),
                          "evaluate.view", "leave it at auto");
  }
  if (job.compression.compress != Compress::kNone) {
    throw InvalidArgument(fmt::format("a {} run sends no updates", protocol), "comm.compress",
                          "only run.protocol = federated has it");
  }
  if (job.evaluate.regret) {
    throw InvalidArgument(fmt::format("a {} run estimates nothing from a sample", protocol),
                          "evaluate.regret", "only run.protocol = federated has it");
  }
}

bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr int64_t kMostRounds = 1000000;  // of a protocol that ends itself

const Reading kBoundReading{.sections = {"run", "data", "federation", "model", "client", "comm",
                                         "evaluate", "checkpoint", "report"},
                            .keys = {"server.role", "sampler.kind", "sampler.per-round",
                                     "sampler.availability", "sampler.seed"},
                            .except = {"client.update", "client.personal", "client.phases",
                                       "client.alternate", "client.clustered", "client.cluster-by",
                                       "federation.models", "federation.clusters-path"}};

const Family<ProtocolKind> kProtocols{
    "protocols",
    "run.protocol",
    "how ranks work together",
    chosen_by<&Job::run, &RunOptions::protocol>,
    {{{"federated", "rounds: draw, train, mix, step"},
      {{"run", "data", "federation", "model", "client", "sampler", "aggregator", "attack",
        "privacy", "server", "comm", "clock", "async", "evaluate", "checkpoint", "report",
        "simulate"}},
      {.has_rounds = true, .holds_out = true, .has_shared_model = true},
      std::nullopt,
      assemble_federated},
     {{"online", "every node its own model on a stream of batches", {}, check_online},
      {.sections = {"run", "data", "federation", "model", "online", "evaluate", "checkpoint",
                    "report"},
       .except = {"evaluate.view", "evaluate.tune-steps", "evaluate.start", "evaluate.scores",
                  "report.participation", "federation.models", "federation.clusters-path"}},
      {},
      std::nullopt,
      assemble_online},
     {{"centralized",
       "a bound: one model on everybody's samples, as many a round",
       {},
       check_bound},
      kBoundReading,
      {.has_rounds = true, .has_shared_model = true},
      Bound::kCentralized,
      assemble_federated},
     {{"local", "a bound: every client alone, nothing is mixed", {}, check_bound},
      kBoundReading,
      {.has_rounds = true},
      Bound::kLocal,
      assemble_federated},
     {{"bandit", "clients pull arms and synchronize what they know", {}, check_bandit, kCpusAlone},
      {.sections = {"run", "data", "federation", "bandit", "evaluate", "checkpoint", "report"},
       .except = {"evaluate.view", "evaluate.tune-steps", "evaluate.metrics", "evaluate.start",
                  "evaluate.scores", "evaluate.best", "run.patience", "run.target",
                  "run.on-divergence", "data.seed", "evaluate.on", "evaluate.clients",
                  "evaluate.history", "data.validation-fraction", "data.normalize",
                  "federation.validation-clients", "federation.models", "federation.clusters-path",
                  "report.participation"}},
      {},
      std::nullopt,
      assemble_bandit},
     {{"statistics",
       "statistics of all clients' samples, exactly those of the pooled ones",
       {},
       check_statistics,
       kCpusAlone},
      {.sections = {"run", "data", "federation", "statistics", "checkpoint"},
       .keys = {"privacy.kind", "privacy.noise", "privacy.epsilon", "privacy.delta", "privacy.seed",
                "privacy.accountant"},
       .except = {"run.rounds", "run.repeats", "run.device", "run.patience", "run.target",
                  "run.on-divergence", "run.state-dict", "run.merge-adapters", "run.check-rules",
                  "run.trace", "data.standardize", "data.normalize", "data.validation-fraction",
                  "federation.held-out", "federation.validation-clients", "federation.models",
                  "federation.clusters-path"}},
      {.reads_as_is = true, .ends_itself = true},
      std::nullopt,
      assemble_statistics}}};

}  // namespace

bool Reading::reads(const std::string& key) const {
  if (holds(keys, key)) return true;
  return holds(sections, key.substr(0, key.find('.'))) && !holds(except, key);
}

const ProtocolKind& protocol_kind(const Job& job) { return kProtocols.find(job.run.protocol); }

const std::vector<KindFamily>& catalog() {
  static const std::vector<KindFamily> families = [] {
    auto all = kind_families();
    all.push_back(listed(kProtocols));
    return all;
  }();
  return families;
}

Assembly::Assembly(Communicator& comm) : host(comm.split(kByHost)) {}
Assembly::~Assembly() = default;

std::unique_ptr<Assembly> assemble(const Job& job, Communicator& comm, const RankGpu* given) {
  auto assembly = protocol_kind(job).assemble(job, comm, given);
  if (assembly->model) {
    const std::string products = products_text(job.model, assembly->trains_on_gpu());
    if (!products.empty()) assembly->greeting.push_back(products);
  }
  return assembly;
}

bool ends_itself(const std::string& protocol) {
  const auto found = std::ranges::find(kProtocols.rows, protocol, &ProtocolKind::name);
  return found != kProtocols.rows.end() && found->traits.ends_itself;
}

bool has_clusters(const Job& job) {
  return job.client.has_clusters() && protocol_kind(job).reading.reads("client.clustered");
}

int64_t told_rounds(const Job& job) { return ends_itself(job.run.protocol) ? 0 : job.run.rounds; }

void settle_job(const Assembly& parts, Job& job) {
  const ProtocolKind& protocol = protocol_kind(job);
  const Reading& reading = protocol.reading;
  if (protocol.traits.ends_itself) job.run.rounds = kMostRounds;
  // Data with clients of their own say how many there are.
  const Federation& federation = parts.federation;
  const int64_t all = federation.clients() + federation.held_out();
  const int64_t idle = reading.reads("attack.idle") ? idle_attackers(job.attack) : 0;
  if (all > 0) job.federation.clients = all - idle;
  if (!reading.reads("report.participation")) return;
  job.run.report.participation =
      parts.writes_participation ? ReportParticipation::kTrue : ReportParticipation::kFalse;
}

}  // namespace hanse
