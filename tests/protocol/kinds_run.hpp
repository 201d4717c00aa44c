// One rank's objects of a job's kinds, trained side by side on a device or one after another.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "hanse/base/cipher.hpp"
#include "hanse/client/round_steps.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/aggregators.hpp"
#include "hanse/kinds/attacks.hpp"
#include "hanse/kinds/clock.hpp"
#include "hanse/kinds/privacy.hpp"
#include "hanse/kinds/samplers.hpp"
#include "hanse/kinds/updates.hpp"
#include "hanse/model/torch_library.hpp"
#include "hanse/protocol/sum_masks.hpp"
#include "hanse/protocol/worker_momentum.hpp"
#include "hanse/rules/sampling/basic.hpp"
#include "protocol/trainer_fixture.hpp"

namespace hanse {

inline constexpr int64_t kJobClients = 9, kJobDraws = 7, kJobIdle = 2;

struct KindsJob {
  Job job = {};
  int64_t cohort = 3;  // 0: one by one
  std::string device = "cpu";
  bool all_clients = false;   // take part
  bool measures_all = false;  // FederatedSettings::regret
  int64_t rounds = 5;
  bool evaluates = false;  // behind the rounds
  bool squares = false;    // FederatedSettings::squares, for the job's sampler
  bool own_gpus = false;   // of each rank, in the place of `device`; NCCL sums between them
};

// Clients of unequal size; of `idle` behind them none has a sample.
inline Federation unequal_clients(Communicator& host, int64_t idle) {
  DataOptions data;
  data.kind = "random";
  data.shape = {1, 6, 6};
  data.classes = 3;
  FederationOptions options;
  options.clients = kJobClients;
  options.partition = "sizes";
  options.sizes = {2, 5, 12};
  options.size_probabilities = {0.4, 0.3, 0.3};
  options.held_out = idle > 0 ? 0 : 2;
  Federation clients = Federation::load(data, options, 11, host);
  return idle > 0 ? clients.with_idle(idle) : clients;
}

// A client's steps of SGD, on which the kinds are tried.
inline Job plain_steps() {
  Job job;
  job.run.rounds = 5;
  job.model.kind = "mlp";
  job.model.hidden = {5};
  job.client.epochs = 2;
  job.client.batch = 4;
  job.client.lr = 0.1;
  job.sampler.per_round = kJobDraws;
  return job;
}

struct KindsRun : TrainerFixture<> {
  KindsRun(Communicator& all, const KindsJob& c)
      : TrainerFixture(all,
                       [&c](Communicator& shared) {
                         return unequal_clients(shared, c.job.attack.idle ? kJobIdle : 0);
                       }),
        job(c.job) {
    const int64_t clients = federation.clients(), drawn = c.all_clients ? clients : kJobDraws;
    model = make_model(job.model, federation.sample_shape(), federation.classes());
    take_loss();
    attackers = make_attackers(job, clients, comm.rank() == 0);
    const double share = static_cast<double>(drawn) / static_cast<double>(clients);
    aggregator = make_aggregator(job, clients, share);
    const AggregatorNeeds needs = needs_among(aggregator->needs(), attackers.get());
    update = make_update(job, federation, *model, needs);
    tuner = make_tuner(job, federation, *model);
    sampler = c.all_clients ? make_full_sampler(clients) : make_uniform_sampler(clients, drawn);
    if (c.squares) sampler = make_sampler(job, federation);
    if (needs.extra_row == ExtraRow::kServer) add_root();
    add_stages();
    add_parts();
    add_clock();
    settings.seed = 11;
    settings.max_participants = clients;
    settings.server = job.server;
    settings.timed = turnout != nullptr || job.async.is_on() || job.clock.is_on();
    settings.async = job.async;
    settings.regret = c.measures_all;
    settings.own_models = evaluates_own_models(job);
    settings.squares = c.squares;
    optimizer = make_server_optimizer(settings.server, model->n_params());
    if (c.cohort > 0) add_cohorts(c, needs);
    start();
  }

  // The server trains on the first of the clients that are held out, or on one without samples.
  void add_root() {
    const int64_t own = federation.held_out() > 0 ? federation.clients() : kJobClients;
    root = [this, own](int64_t round, std::span<const float> received, std::span<float> row) {
      std::ranges::copy(received, row.begin());
      update->train({.client = own, .round = round, .seed = 11, .row = row});
      for (std::size_t i = 0; i < row.size(); ++i) row[i] -= received[i];
    };
  }

  void take_loss() {
    if (!job.client.objective.empty()) {
      train_for(*model, job.client.objective, federation.label_form());
    } else if (!own_loss_key(job.client).empty()) {
      smooth_labels(*model, job.client.label_smoothing);
    }
  }

  void add_stages() {
    owned_stages.push_back(make_worker_momentum(job.client.worker_momentum, model->layout()));
    owned_stages.push_back(make_replacement(job, federation.clients()));
    owned_stages.push_back(make_compression(job.compression, model->layout()));
    std::erase(owned_stages, nullptr);
    for (const auto& stage : owned_stages) stages.updates.push_back(stage.get());
  }

  void add_parts() {
    if (job.comm.masks == AskedMasks::kTrue) round_part = make_sum_masks(comm);
    if (!job.privacy.is_on()) return;
    privacy = std::make_unique<PrivateTraining>(
        PrivacySetup{.options = job.privacy,
                     .terms = privacy_terms(job, federation.clients(), model->n_params()),
                     .rounds = job.run.rounds,
                     .key = CipherKey::of_numbers(std::array{uint64_t{5}}),
                     .weight = [](int64_t) { return 1.0; }},
        comm, model->n_params());
  }

  void add_clock() {
    if (!job.clock.is_on()) return;
    const LocalWork work = update->steps().work();
    std::vector<int64_t> samples;
    for (int64_t c = 0; c < federation.clients(); ++c) {
      samples.push_back(federation.train(c).size());
    }
    clock = make_virtual_clock(
        job.clock, samples, federation.names().clients,
        {.steps = [=](int64_t client) { return local_steps(work, samples[std::size_t(client)]); },
         .samples =
             [=](int64_t client, int64_t steps) {
               return samples_processed(work, samples[std::size_t(client)], steps);
             },
         .bytes = {}},
        3);
    turnout = job.async.is_on()
                  ? make_buffered_turnout(job.async, 10, *clock.tasks, *clock.on_line, {})
                  : make_timed_turnout(job.clock, kJobDraws, *clock.tasks, *clock.on_line, {});
  }

  void add_cohorts(const KindsJob& c, const AggregatorNeeds& needs) {
    std::vector<RoundPart*> parts;
    for (RoundPart* part : {static_cast<RoundPart*>(privacy.get()), round_part.get()}) {
      if (part != nullptr) parts.push_back(part);
    }
    ClientOptions options = instructed_clients(job);
    options.poison = poison_of(job, federation.clients());
    const std::string device =
        c.own_gpus ? torch_library().gpu.use(comm.rank(), Precision::kFloat32) : c.device;
    const auto room = [&](const ClientOptions& own, int64_t places, int64_t bytes) {
      return std::make_unique<CohortTraining>(own, federation, job.model, device, places, bytes);
    };
    runner =
        make_cohort_runner({comm, federation, *model, *update, needs, stages, tuner.get(), parts},
                           settings, room(options, c.cohort, 1 << 20),
                           c.own_gpus ? torch_library().make_nccl_communicator(comm, device)
                                      : torch_library().make_staged_communicator(comm),
                           tuner ? room(tuner_options(job), 1, 0) : nullptr);
  }

  Job job;
  std::vector<std::unique_ptr<UpdateStage>> owned_stages;
  VirtualClock clock;
};

}  // namespace hanse
