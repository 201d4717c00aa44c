#include "hanse/run/load_job.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "assemble/federated_checks.hpp"
#include "assemble/protocols.hpp"
#include "hanse/base/choice.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/log.hpp"
#include "hanse/base/text.hpp"
#include "hanse/data/kinds.hpp"
#include "hanse/job/asked.hpp"
#include "hanse/job/keyed_job.hpp"
#include "hanse/kinds/clusters.hpp"
#include "hanse/kinds/conflicts.hpp"
#include "hanse/kinds/samplers.hpp"
#include "hanse/kinds/updates.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/engine_choice.hpp"

namespace hanse {

namespace fs = std::filesystem;

namespace {

// Jobs are kept beside their data, jobs/heart.cfg beside data/heart, in a folder that is not always
// the current one: what is missing here may be in the job's folder or beside it.
std::string found_near(const std::string& job_file, const std::string& path) {
  if (path.empty() || fs::path(path).is_absolute() || data_exist(path)) return path;
  const fs::path folder = fs::path(job_file).parent_path();
  for (const fs::path& near : {folder / path, folder / ".." / path}) {
    if (data_exist(near.string())) return fs::weakly_canonical(near).string();
  }
  return path;
}

// Rounds that are private for clients weigh them by what is known without them; all keep one
// secret.
void take_private_defaults(KeyedJob& job) {
  const auto given = [&job](const char* key) { return job.table.at(key).given; };
  const bool of_clients = job.privacy.of_clients();
  if (of_clients && !given("aggregator.weights")) job.aggregator.weights = ClientWeights::kUniform;
  if (of_clients && !given("aggregator.estimator")) {
    job.aggregator.estimator = Estimator::kUnbiased;
  }
  if (!given("checkpoint.keep") && job.privacy.has_secret()) job.checkpoint.keep = 1;
}

// Kinds that change what a run does are not ignored where the protocol does not read them.
void check_protocol(const Job& job) {
  const Reading& reading = protocol_kind(job).reading;
  for (const auto& [key, kind] :
       {std::pair{"async.kind", job.async.kind}, {"privacy.kind", job.privacy.kind}}) {
    if (kind == "none" || reading.reads(key)) continue;
    throw InvalidArgument(fmt::format("{} = {} needs run.protocol = federated", key, kind),
                          "run.protocol", fmt::format("leave {} at none", key));
  }
  const bool keeps = job.data.missing == MissingValues::kKeep;
  if (keeps && !protocol_kind(job).traits.reads_as_is) {
    throw InvalidArgument("a model needs a number in the place of a missing one", "data.missing",
                          "keep is for run.protocol = statistics; mean, for example, fills it");
  }
}

// The clients that a job of rounds trains; empty: only its data tell how many.
std::optional<int64_t> trained_clients(const Job& job) {
  const auto clients = clients_before_reading(job.data, job.federation);
  if (!clients) return std::nullopt;
  return *clients + idle_attackers(job.attack);
}

// Names of lines: a kind of adapters that only says what moves, and what is whose.
void take_lora_kind(KeyedJob& job) {
  const auto add = [](std::string& patterns, const std::string& one) {
    const auto all = split_list(patterns);
    if (std::ranges::count(all, one) == 0) patterns += (patterns.empty() ? "" : ",") + one;
  };
  if (job.client.lora_kind == LoraKind::kFfa) add(job.client.train, "*.lora_B");
  if (job.client.lora_kind == LoraKind::kRolora && job.client.alternate.empty()) {
    job.client.alternate = "*.lora_B,*.lora_A";  // while B is 0, A has no gradient
  }
  if (job.client.lora_kind == LoraKind::kFedsa) add(job.client.personal, "*.lora_B");
}

// Refuses keys of adapters where there are none.
void check_adapters(const Job& job) {
  const bool has_rank = job.client.lora.is_any();
  for (const auto& [key, asks] : {std::pair{"run.merge-adapters", job.run.merge_adapters},
                                  {"run.adapters", job.run.adapters != AdapterFormat::kNone},
                                  {"client.lora-path", job.client.lora_path != AdapterPath::kAuto},
                                  {"client.lora-kind", job.client.lora_kind != LoraKind::kPlain}}) {
    if (!asks || has_rank) continue;
    throw InvalidArgument("there are no adapters", key, "client.lora = 8, for example, makes some");
  }
  if (job.client.lora.value == AdapterRank::kOfFile && !fs::is_directory(job.model.start)) {
    throw InvalidArgument("the rank is that of a folder of PEFT's adapters, and there is none",
                          "client.lora", "model.start = the folder, or client.lora = 8");
  }
  if (asked_of(job).lora_gap && !protocol_kind(job).traits.has_rounds) {
    throw InvalidArgument("lora-gap is of the participants of a round", "evaluate.metrics",
                          "only run.protocol = federated has it");
  }
  const LoraKind kind = job.client.lora_kind;
  const bool has_rounds = protocol_kind(job).traits.has_rounds && !protocol_kind(job).bound;
  if (has_rounds || kind == LoraKind::kPlain || kind == LoraKind::kFfa) return;
  throw InvalidArgument(
      fmt::format("client.lora-kind = {} needs run.protocol = federated", name_of(kind)),
      "client.lora-kind", "plain or ffa");
}

// An own model that steps make of the shared one is made by one at least.
void take_own_view(Job& job) {
  int64_t& steps = job.evaluate.tune_steps;
  if (update_traits(job.client).adapts) steps = std::max<int64_t>(steps, 1);
}

}  // namespace

void check_kinds(const Job& job) {
  check_protocol(job);
  const ProtocolKind& protocol = protocol_kind(job);
  const Reading& reading = protocol.reading;
  if (protocol.traits.has_rounds) {
    const Job trained = protocol.bound ? bound_options(job, *protocol.bound) : job;
    require_no_conflict(facts_of(trained));
  }
  Job chosen = job;
  for (const KindFamily& family : catalog()) {
    if (!reading.reads(family.key)) continue;
    const std::string& choice = family.choice(chosen);
    for (const auto& name : family.several ? split_list(choice) : std::vector{choice}) {
      if (const auto& check = family.find(name).check) check(job);
    }
  }
}

void load_job(const std::string& path, const Overrides& overrides, KeyedJob& job) {
  read_job(path, overrides, job);
  job.data.path = found_near(path, job.data.path);
  const ProtocolKind& protocol = protocol_kind(job);
  const Reading& reading = protocol.reading;
  const auto is_read = [&](const std::string& key) {
    return reading.reads(key) && job.table.is_used(job.table.at(key));
  };
  if (job.run.name.empty()) job.run.name = fs::path(path).stem().string();
  if (job.run.out.empty()) job.run.out = "runs/" + job.run.name;
  take_lora_kind(job);
  if (job.evaluate.view == EvaluateView::kAuto && reading.reads("evaluate.view")) {
    const bool own = protocol.bound ? *protocol.bound == Bound::kLocal : evaluates_own_models(job);
    job.evaluate.view = own ? EvaluateView::kPersonalised : EvaluateView::kGlobal;
  }
  if (job.evaluate.view == EvaluateView::kPersonalised && reading.reads("evaluate.view")) {
    take_own_view(job);
  }
  for (auto [key, horizon] : {std::pair{"sampler.horizon", &job.sampler.learning.horizon},
                              {"client.schedule-length", &job.client.schedule.length},
                              {"bandit.horizon", &job.bandit.horizon},
                              {"online.horizon", &job.online.horizon}}) {
    if (*horizon == 0 && is_read(key)) *horizon = job.run.rounds;
  }
  if (job.privacy.is_on()) take_private_defaults(job);
  require_writable(job);
}

void check_job(const Job& job) {
  check_engine(job);
  const ProtocolKind& protocol = protocol_kind(job);
  const Reading& reading = protocol.reading;
  check_protocol(job);
  if (!reading.reads("model.kind")) return check_kinds(job);
  check_data(job.data, job.federation);
  for (const auto& [key, wanted] :
       {std::pair{"federation.held-out", job.federation.held_out},
        {"federation.validation-clients", job.federation.validation_clients}}) {
    if (wanted.is_none() || protocol.traits.holds_out) continue;
    throw InvalidArgument(fmt::format("a {} run trains every client", job.run.protocol), key,
                          "leave it 0");
  }
  if (job.data.test == OwnTests::kCommon && !protocol.traits.has_shared_model) {
    throw InvalidArgument(fmt::format("a {} run has no shared model to evaluate", job.run.protocol),
                          "evaluate.test", "use own");
  }
  check_adapters(job);
  if (reading.reads("client.clustered")) check_clusters(job);
  asked_of(job);
  loss_batches(job.aggregator.loss);
  given_bound(job.sampler.a_max);
  check_availability(job.sampler.availability);
  check_kinds(job);
  if (!protocol.traits.has_rounds || protocol.bound) return;
  if (const auto clients = trained_clients(job)) check_clients(job, *clients);
}

bool asks_the_data(const Job& job) {
  const ProtocolKind& protocol = protocol_kind(job);
  return protocol.traits.has_rounds && !protocol.bound && !trained_clients(job);
}

std::vector<std::string> unused_keys(const KeyedJob& job) {
  const Reading& reading = protocol_kind(job).reading;
  const auto reads = [&](const std::string& key) { return reading.reads(key); };
  std::vector<std::string> keys;
  for (const Option& option : job.table.options()) {
    if (option.given && !reads(option.key) && !option.is_default()) keys.push_back(option.key);
    if (option.given && option.key == "sampler.per-round" && job.async.is_on()) {
      keys.push_back(fmt::format("{} (async.kind={})", option.key, job.async.kind));
    }
  }
  for (const std::string& key : job.table.ignored(reads)) {
    // "client.mu (client.update=sgd)"
    if (has_clusters(job) && key.starts_with("aggregator.loss ")) continue;  // which clusters read
    if (reads(key.substr(0, key.find(' ')))) keys.push_back(key);
  }
  return keys;
}

void tell_start(const KeyedJob& job, const std::vector<std::string>& lines, bool is_resumed) {
  for (const std::string& line : lines) notice(line);
  if (job.run.report.tensorboard) {
    notice("report.tensorboard is ignored: scripts/log-to tensorboard writes its files");
  }
  const auto ignored = unused_keys(job);
  // A resumed run's job.cfg gives every key.
  if (!ignored.empty() && !is_resumed) notice("not used by this job: " + join(ignored, ", "));
}

}  // namespace hanse
