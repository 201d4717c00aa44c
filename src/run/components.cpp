#include "hanse/run/components.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "hanse/base/digest.hpp"
#include "hanse/base/error.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/model/threads.hpp"
#include "hanse/run/availability.hpp"
#include "hanse/run/bounds.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/engine.hpp"

namespace hanse {

void require_same(Communicator& comm, const std::string& what, const std::string& text,
                  const std::string& hint) {
  const std::string first = bcast_text(comm, text, 0);
  agree_on(comm, [&] {
    if (text == first) return;
    const auto brief = [](const std::string& value) {
      return value.size() <= 60 ? value : "digest " + digest_hex(std::as_bytes(std::span(value)));
    };
    throw InvalidArgument(
        fmt::format("ranks have different {}: '{}' and '{}'", what, brief(first), brief(text)), "",
        hint);
  });
}

namespace {

// All samples of the client are tokens that a model of this vocabulary knows.
void check_tokens(const Federation& federation, int64_t client, int64_t vocabulary) {
  constexpr int64_t kSamples = 256;  // at once
  std::vector<float> values;
  for (const SampleRange range : {federation.train(client), federation.test(client)}) {
    for (int64_t begin = range.begin; begin < range.end; begin += kSamples) {
      const SampleRange part{begin, std::min(begin + kSamples, range.end)};
      values.resize(static_cast<std::size_t>(part.size() * federation.sample_values()));
      federation.copy(part, values.data());
      for (const float value : values) {
        if (is_token(value, vocabulary)) continue;
        throw InvalidArgument(fmt::format("client {} has the value {}, no token: the model knows "
                                          "the whole numbers from 0 to {}",
                                          client, value, vocabulary - 1),
                              "model.vocabulary", "it must be above the largest token of the data");
      }
    }
  }
}

// Rules that send gradients, or weigh updates by their inner products, have none for buffers.
void check_buffers(const Job& job, const ParameterLayout& layout, bool gradients_travel) {
  if (!gradients_travel || layout.n_trainable() == layout.n_params()) return;
  throw InvalidArgument(fmt::format("{} works on gradients, and the model has buffers or frozen "
                                    "parameters",
                                    job.aggregator.kind),
                        "aggregator.kind",
                        "group norm has no buffers; other aggregators average them");
}

FederatedTrainer::Settings trainer_settings(const Job& job, int64_t max_participants) {
  return {.seed = static_cast<uint64_t>(job.run.seed),
          .max_participants = max_participants,
          .client = job.client,
          .server = job.server,
          .comm = job.comm,
          .round_seconds = job.run.round_seconds,
          .loss_batches = loss_batches(job.aggregator.loss),
          .equal_importance = job.aggregator.weights == "uniform",
          .regret = job.evaluate.regret,
          .trace = job.run.trace,
          .own_models = evaluates_own_models(job),
          .state_folder = job.run.out};
}

OnlineTrainer::Settings online_settings(const Job& job, int64_t nodes) {
  const OnlineOptions& online = job.online;
  return {.seed = static_cast<uint64_t>(job.run.seed),
          .peers = online.peers,
          .train_first = online.order == "train-then-predict",
          .score_estimates = online.variant == "corrected",
          .loss_scale = online.loss_scale,
          .c = online.c,
          .eta = online.kind == "fed-exp" ? online_eta(online.eta, nodes, online.horizon) : 0,
          .stream = {.horizon = online.horizon, .drift = online.drift}};
}

// A round with a time limit tells nothing of those it leaves out.
void check_time_limit(const Job& job, const LocalUpdate& update, const AggregatorNeeds& needs,
                      const ParameterLayout& layout) {
  if (job.run.round_seconds == 0) return;
  const auto refuse = [](const std::string& who, const std::string& key, const std::string& hint) {
    throw InvalidArgument(who + " needs every participant's update", key,
                          hint + ", or run.round-seconds = 0");
  };
  const std::string& sampler = job.sampler.kind;
  const bool blind =
      sampler == "uniform" || sampler == "full" || sampler == "weighted" || sampler == "lipschitz";
  if (!blind) refuse(sampler, "sampler.kind", "use uniform, full, weighted or lipschitz");
  if (needs.norms || needs.gram || needs.rates || needs.trials > 0) {
    refuse(job.aggregator.kind, "aggregator.kind", "use a rule that weighs before training");
  }
  if (update.state_width() > 0 || update.tells_update()) {
    refuse(job.client.kind, "client.update", "use sgd or prox");
  }
  if (job.run.trace) refuse("a trace", "run.trace", "use run.trace = false");
  // The scaled sum weighs them as a mean on average alone: a variance could turn negative.
  if (layout.n_trainable() < layout.n_params()) {
    refuse("a model with buffers or frozen parameters", "model.kind", "group norm has no buffers");
  }
}

void check_view(const Job& job, const LocalUpdate& update) {
  if (!evaluates_own_models(job) || !update.tells_update()) return;
  throw InvalidArgument("clients of this job send directions and have no models of their own",
                        "evaluate.view", "use evaluate.view = global");
}

}  // namespace

Components::Components(const Job& job, Communicator& comm) : host(comm.split_by_host()) {
  if (job.run.protocol == "bandit") {
    bandit = make_bandit(job, comm);
    protocol = bandit.get();
    return;
  }
  set_model_threads(job.run.threads);
  require_same(comm, "kernels", kernel_family(),
               "set HANSE_KERNELS to the oldest of them on every host, e.g. HANSE_KERNELS=Haswell");
  agree_on(comm, [&] {  // a file may be damaged on one host alone
    federation =
        Federation::load(job.data, job.federation, static_cast<uint64_t>(job.run.seed), *host);
  });
  require_same(comm, "data", fmt::format("{:016x}", federation.digest()),
               "every host needs the same files");
  build_model(job, comm);
  if (job.run.protocol == "online") {
    build_online(job, comm);
  } else if (is_bound(job)) {
    std::unique_ptr<Job> bound;
    agree_on(comm, [&] { bound = bound_job(job, federation); });
    build_federated(*bound, comm);
  } else {
    build_federated(job, comm);
  }
}

void Components::build_model(const Job& job, Communicator& comm) {
  agree_on(comm, [&] {
    model = make_model(job.model, federation.sample_shape(), federation.classes());
    if (job.model.kind == "torchscript") model_file_digest = file_digest_hex(job.model.path, 0);
  });
  require_same(comm, "model files", model_file_digest, "every host needs the same model.path");
  if (model->vocabulary() == 0) return;
  agree_on(comm, [&] {
    const int64_t all = federation.clients() + federation.held_out();
    for (int64_t id = comm.rank(); id < all; id += comm.size()) {
      check_tokens(federation, id, model->vocabulary());
    }
  });
}

void Components::build_online(const Job& job, Communicator& comm) {
  agree_on(comm, [&] {
    experts = make_experts(job, federation.clients(), job.online.horizon);
    fit = make_stream_fit(job, federation, *model);
    online = std::make_unique<OnlineTrainer>(
        OnlineTrainer::Parts{
            .comm = comm, .federation = federation, .model = *model, .rule = *experts, .fit = *fit},
        online_settings(job, federation.clients()));
    protocol = online.get();
  });
}

void Components::build_federated(const Job& job, Communicator& comm) {
  int64_t max_participants = 0;
  client = job.client;
  agree_on(comm, [&] {
    update = make_update(job, federation, *model);
    check_view(job, *update);
    require_state_room(update->state_width(), federation.clients(), comm.size(),
                       job.client.state_memory << 20, job.run.out);
    if (comm.rank() != 0) return;
    sampler = make_sampler(job, federation);
    availability = make_availability(job.sampler.availability, federation.clients());
    optimizer = make_optimizer(job, model->layout().n_trainable());
    max_participants = std::min(sampler->per_round(), federation.clients());
  });
  comm.bcast(std::span(&max_participants, 1), 0);
  participation = static_cast<double>(max_participants) / static_cast<double>(federation.clients());
  agree_on(comm, [&] {
    aggregator = make_aggregator(job, federation.clients(), participation);
    check_time_limit(job, *update, aggregator->needs(), model->layout());
    check_buffers(job, model->layout(), aggregator->needs().gram || update->tells_update());
  });
  const auto settings = trainer_settings(job, max_participants);
  const RoundNeeds needs{.update = *update,
                         .rule = aggregator->needs(),
                         .foresight = sampler && sampler->needs_foresight(),
                         .settings = settings,
                         .model_kind = job.model.kind,
                         .update_kind = job.client.kind,
                         .rule_kind = job.aggregator.kind,
                         .protocol = job.run.protocol};
  auto engine = build_engine(job, needs, {comm, federation, *model, *update, needs.rule}, *host);
  trainer =
      std::make_unique<FederatedTrainer>(FederatedTrainer::Parts{.comm = comm,
                                                                 .host = *host,
                                                                 .federation = federation,
                                                                 .model = *model,
                                                                 .update = *update,
                                                                 .sampler = sampler.get(),
                                                                 .aggregator = *aggregator,
                                                                 .optimizer = optimizer.get(),
                                                                 .availability = availability.get(),
                                                                 .engine = std::move(engine)},
                                         settings);
  protocol = trainer.get();
}

}  // namespace hanse
