#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "assemble.hpp"
#include "federated_checks.hpp"
#include "frozen_cache.hpp"
#include "hanse/base/digest.hpp"
#include "hanse/base/error.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/job/asked.hpp"
#include "hanse/kinds/aggregators.hpp"
#include "hanse/kinds/attacks.hpp"
#include "hanse/kinds/conflicts.hpp"
#include "hanse/kinds/own_rules.hpp"
#include "hanse/kinds/privacy.hpp"
#include "hanse/kinds/samplers.hpp"
#include "hanse/kinds/updates.hpp"
#include "hanse/model/part_model.hpp"
#include "hanse/protocol/extrapolation.hpp"
#include "hanse/protocol/stacking.hpp"
#include "hanse/protocol/sum_masks.hpp"
#include "hanse/protocol/update_stage.hpp"
#include "hanse/run/engine_choice.hpp"
#include "moves_text.hpp"
#include "own_columns.hpp"
#include "privacy.hpp"
#include "protocols.hpp"
#include "results/facts.hpp"
#include "rule_factory.hpp"
#include "trace.hpp"
#include "trained_part.hpp"
#include "updates.hpp"

namespace hanse {

namespace {

constexpr int64_t kMostLines = 1'000'000;  // of participation.csv, unasked

bool writes_participation(const Job& job, int64_t max_participants) {
  const ReportParticipation asked = job.run.report.participation;
  if (asked != ReportParticipation::kAuto) return asked == ReportParticipation::kTrue;
  return job.run.rounds <= kMostLines / std::max<int64_t>(1, max_participants);
}

FederatedTrainer::Settings trainer_settings(const Job& job, int64_t max_participants) {
  return {.seed = seed_of(job, job.client.seed),
          .model_seed = seed_of(job, job.model.seed),
          .sampler_seed = seed_of(job, job.sampler.seed),
          .max_participants = max_participants,
          .server = job.server,
          .comm = job.comm,
          .round_seconds = job.run.round_seconds,
          .loss_batches = loss_batches(job.aggregator.loss),
          .equal_importance = job.aggregator.weights == ClientWeights::kUniform,
          .regret = job.evaluate.regret,
          .squares = sampler_traits(job.sampler).squares,
          .trace = job.run.trace,
          .participation = writes_participation(job, max_participants),
          .timed = is_timed(job),
          .async = staleness_options(job),
          .asked = asked_of(job),
          .own_models = evaluates_own_models(job),
          .state_bytes = job.client.state_memory << 20,
          .state_folder = job.run.out};
}

// Rank 0's rule; the other ranks get one that knows what it needs. Collective.
AggregatorNeeds make_server_rule(const RuleFactory& rules, Communicator& comm,
                                 FederatedAssembly& parts) {
  AggregatorNeeds needs;
  agree_on(comm, [&] {
    if (comm.rank() != 0) return;
    parts.aggregator = rules.aggregator(parts.participation);
    needs = needs_among(parts.aggregator->needs(), parts.attackers.get());
    require_no_conflict(facts_of(parts.trained, needs));
  });
  comm.bcast(std::as_writable_bytes(std::span(&needs, 1)), 0);
  if (comm.rank() != 0) parts.aggregator = make_rule(needs, nullptr);
  return needs;
}

// Tries the sizes of batches that a network or a loss from a file will get: it may refuse some.
void try_sizes(const Job& job, Communicator& comm, FederatedAssembly& parts) {
  if (!parts.files.contains("model.path") && !parts.files.contains("client.objective")) return;
  // To be evaluated, those held out may train models of their own.
  const bool held_out_train = evaluates_own_models(job) || job.evaluate.tune_steps > 0;
  const int64_t trained =
      parts.federation.clients() + (held_out_train ? parts.federation.held_out() : 0);
  const int64_t batches = parts.aggregator->needs().losses ? loss_batches(job.aggregator.loss) : 0;
  try_batches(batch_trials(job.client, parts.federation, *parts.model, trained, batches), comm,
              parts);
}

// Says what rules and samplers see of compressed updates.
void greet_compression(const AggregatorNeeds& needs, FederatedAssembly& parts) {
  if (parts.trained.compression.compress == Compress::kNone) return;
  const auto say = [&](const std::string& kind) {
    parts.greeting.push_back(
        fmt::format("updates are compressed: {} sees what clients send of them", kind));
  };
  if (needs.norms || needs.after_training() || needs.rates) say(parts.trained.aggregator.kind);
  if (!sampler_traits(parts.trained.sampler).blind) say(parts.trained.sampler.kind);
}

// Without replacement no more clients are drawn than there are.
void greet_all_clients(FederatedAssembly& parts) {
  const SamplerOptions& sampler = parts.trained.sampler;
  const int64_t draws = parts.sampler->per_round();
  if (sampler_traits(sampler).everyone || draws >= sampler.per_round) return;
  if (parts.trained.async.is_on()) return;  // which draws as many as have no task
  parts.greeting.push_back(fmt::format(
      "sampler.per-round = {} is above the number of clients: {}", sampler.per_round,
      is_own_rule(sampler.kind) ? fmt::format("a round has {} draws at most", draws)
                                : fmt::format("all {} take part in every round", draws)));
}

// Says what the job's sampler does that its keys do not tell.
void greet_sampler(bool has_durations, FederatedAssembly& parts) {
  greet_all_clients(parts);
  const Job& job = parts.trained;
  const SamplerTraits traits = sampler_traits(job.sampler);
  if (traits.squares && !has_durations) {
    parts.greeting.push_back(
        fmt::format("sampler.kind = {}: no client has a duration, so that nobody counts as slow",
                    job.sampler.kind));
  }
  if (traits.biased && job.aggregator.estimator == Estimator::kUnbiased) {
    parts.greeting.push_back(fmt::format(
        "sampler.kind = {} favours clients, which aggregator.estimator = unbiased cannot undo",
        job.sampler.kind));
  }
}

// Chooses where the clients are trained, and takes the model there where they are so one by one.
Engine choose_engine_of(const AggregatorNeeds& rule, int64_t participants, Communicator& comm,
                        const RankGpu* given, FederatedAssembly& parts) {
  const Job& job = parts.trained;
  const StepCost work{parts.model->gradient_flops(), job.client.batch,
                      side_by_side(job, participants, parts.model->n_params())};
  Engine engine =
      choose_engine(job, why_one_by_one_on_gpus(job, rule), work, comm, *parts.host, given);
  move_model(job, engine, comm, parts);
  take_frozen_part(job, engine, comm, parts);
  return engine;
}

// Rank 0's clock.
void make_clock(Communicator& comm, FederatedAssembly& parts) {
  agree_on(comm, [&] {
    if (comm.rank() != 0) return;
    parts.time = parts.make_time();
    parts.files.merge(parts.time.files);
    for (const std::string& line : parts.time.greeting) parts.greeting.push_back(line);
  });
}

// The server's own update where the rule asks for it: it trains as a client does.
ServerUpdate root_update(const AggregatorNeeds& rule, const FederatedAssembly& parts) {
  if (rule.extra_row != ExtraRow::kServer) return nullptr;
  const int64_t client = parts.federation.clients() + parts.trained.aggregator.root;
  return
      [&update = *parts.update, client, seed = seed_of(parts.trained, parts.trained.client.seed)](
          int64_t round, std::span<const float> model, std::span<float> row) {
        std::ranges::copy(model, row.begin());
        update.train({.client = client, .round = round, .seed = seed, .row = row});
        for (std::size_t i = 0; !update.sends_direction() && i < row.size(); ++i)
          row[i] -= model[i];
      };
}

// Rank 0's sampler and optimizer. Returns who is there to be drawn, on rank 0; `most` gets the most
// participants of a round, everywhere. Collective.
Availability make_drawing(const RuleFactory& rules, Communicator& comm, int64_t& most,
                          FederatedAssembly& parts) {
  const Job& job = parts.trained;
  const int64_t clients = parts.federation.clients();
  Availability availability;
  agree_on(comm, [&] {
    if (comm.rank() != 0) return;
    parts.sampler = rules.sampler();
    check_sampler_in_time(job, *parts.sampler);
    const std::string& there = job.sampler.availability;
    availability = make_availability(there, clients);
    if (is_schedule(there)) parts.files["sampler.availability"] = file_digest_hex(there, 0);
    parts.optimizer = rules.optimizer(parts.model->layout().n_trainable());
    most = most_updates(job, parts.sampler->per_round(), clients);
    greet_sampler(job.clock.is_on(), parts);
  });
  comm.bcast(std::span(&most, 1), 0);
  return availability;
}

// What looks at the participants' adapters.
void make_stacking_of(Communicator& comm, FederatedAssembly& parts) {
  const Job& job = parts.trained;
  const bool merges = job.client.lora_kind == LoraKind::kFlora, gap = asked_of(job).lora_gap;
  if (parts.part == nullptr || (!merges && !gap)) return;
  parts.stacking = make_stacking({comm, *parts.host, *parts.part, job.server, merges, gap});
}

// Refuses what the memory does not hold, and says what outweighs the training.
void check_room(const AggregatorNeeds& needs, int64_t max_participants, const Communicator& comm,
                FederatedAssembly& parts) {
  const MemoryCase asked{.job = parts.trained,
                         .comm = comm,
                         .federation = parts.federation,
                         .layout = parts.model->layout(),
                         .needs = needs,
                         .participants = max_participants,
                         .tunes = parts.tuner != nullptr};
  check_memory(asked);
  const std::string notice = pairs_notice(asked);
  if (!notice.empty()) parts.greeting.push_back(notice);
}

// Builds the job parts.trained.
void build(Communicator& comm, const RankGpu* given, FederatedAssembly& parts) {
  const Job& job = parts.trained;
  const Federation& federation = parts.federation;
  parts.drawing = drawing_job(job);
  const RuleFactory rules(parts.drawing, parts);
  int64_t max_participants = 0;
  Availability availability = make_drawing(rules, comm, max_participants, parts);
  parts.participation = participation_of(job, max_participants, federation.clients());
  agree_on(comm,
           [&] { parts.attackers = make_attackers(job, federation.clients(), comm.rank() == 0); });
  const AggregatorNeeds rule_needs = make_server_rule(rules, comm, parts);
  Engine engine = choose_engine_of(rule_needs, max_participants, comm, given, parts);
  Model& model = *parts.model;
  take_objective(job, comm, parts);
  parts.samples = make_private_samples(job, model, federation, comm);
  if (parts.samples) parts.trained.client.private_steps = parts.samples->private_steps();
  make_updates(rule_needs, comm, parts);
  if (rule_needs.own_columns) {
    parts.own_columns = make_tried_columns(parts.drawing, federation.clients(),
                                           {max_participants, model.n_params()}, comm);
  }
  agree_on(comm, [&] { check_room(rule_needs, max_participants, comm, parts); });
  make_clock(comm, parts);
  parts.privacy = make_private_training(job, model, federation, comm);
  if (job.server.extrapolate) {
    parts.extrapolation =
        make_extrapolation(model.layout().n_trainable(), job.server.extrapolate_epsilon);
  }
  if (masks_sums(job)) parts.masks = make_sum_masks(comm);
  make_stacking_of(comm, parts);
  try_sizes(job, comm, parts);
  greet_compression(rule_needs, parts);
  auto settings = trainer_settings(job, max_participants);
  parts.writes_participation = settings.participation;
  plan_as_simulated(job, settings);
  RunnerPtr runner =
      make_runner(job, engine, settings,
                  {comm, federation, model, *parts.update, rule_needs, parts.stages(),
                   parts.tuner.get(), parts.acting(), parts.part, parts.frozen.get()});
  parts.trained_on = engine.trains_on();
  parts.trainer = std::make_unique<FederatedTrainer>(
      FederatedTrainer::Parts{.comm = comm,
                              .host = *parts.host,
                              .federation = federation,
                              .model = model,
                              .update = *parts.update,
                              .sampler = parts.sampler.get(),
                              .aggregator = *parts.aggregator,
                              .optimizer = parts.optimizer.get(),
                              .availability = std::move(availability),
                              .runner = std::move(runner),
                              .stages = parts.stages(),
                              .tuner = parts.tuner.get(),
                              .turnout = parts.time.turnout.get(),
                              .attackers = parts.attackers.get(),
                              .root = root_update(rule_needs, parts),
                              .own_columns = parts.own_columns.get(),
                              .acting = parts.acting()},
      settings);
}

}  // namespace

int64_t FederatedAssembly::state_width() const {
  return update->state_width() + width_of(stages().state_blocks());
}

VirtualTime FederatedAssembly::make_time() const {
  return make_virtual_time(trained, {.federation = federation,
                                     .update = *update,
                                     .stages = stages(),
                                     .n_params = model->n_params(),
                                     .per_round = drawing_job(trained).sampler.per_round});
}

Stages FederatedAssembly::stages() const {
  Stages all;
  for (const auto& stage : update_stages) all.updates.push_back(stage.get());
  return all;
}

std::vector<RoundPart*> FederatedAssembly::acting() const {
  std::vector<RoundPart*> parts;
  if (privacy) parts.push_back(privacy.get());
  if (samples) parts.push_back(samples.get());
  if (stacking) parts.push_back(stacking.get());
  if (clusters) parts.push_back(clusters.get());
  if (extrapolation) parts.push_back(extrapolation.get());
  if (masks) parts.push_back(masks.get());  // closes last: what leaves the rank is masked
  return parts;
}

std::function<void()> FederatedAssembly::round_writer(const KeyedJob& job, const std::string& from,
                                                      int64_t completed) {
  if (!job.run.trace || protocol_kind(job).bound) return nullptr;
  return trace_rounds(job, *this, from, completed);
}

std::unique_ptr<Assembly> assemble_federated(const Job& job, Communicator& comm,
                                             const RankGpu* given) {
  auto assembly = std::make_unique<FederatedAssembly>(comm);
  load_samples_and_model(job, comm, *assembly);
  const auto bound = protocol_kind(job).bound;
  agree_on(comm,
           [&] { assembly->trained = bound ? bound_job(job, assembly->federation, *bound) : job; });
  PartOptions& own = assembly->trained.client;
  own.personal = with_peft_factors(own.personal, job, *assembly);
  take_fixed_copies(assembly->trained, comm, *assembly);
  AggregatorOptions& rule = assembly->trained.aggregator;
  if (rule.weights == ClientWeights::kCapped) {
    rule.capped_sum = sum_of_private_weights(rule, assembly->federation);
  }
  build(comm, given, *assembly);
  for (const std::string& line :
       moves_notices(assembly->trained, *assembly->update, assembly->client_model().layout())) {
    assembly->greeting.push_back(line);
  }
  const Federation& federation = assembly->federation;
  const int64_t units =
      job.privacy.of_samples() ? federation.train_samples() : federation.clients();
  for (const std::string& line : privacy_notices(assembly->trained, units)) {
    assembly->greeting.push_back(line);
  }
  for (const std::string& notice :
       {aggregator_notice(assembly->trained), simulation_notice(job, comm.size())}) {
    if (!notice.empty()) assembly->greeting.push_back(notice);
  }
  return assembly;
}

}  // namespace hanse
