#include "hanse/kinds/updates.hpp"

#include <fmt/format.h>

#include "aggregator_kind.hpp"
#include "families.hpp"
#include "hanse/base/error.hpp"
#include "hanse/client/personal.hpp"
#include "hanse/client/second_order.hpp"
#include "hanse/kinds/aggregators.hpp"
#include "hanse/kinds/samplers.hpp"
#include "hanse/protocol/server_optimizer.hpp"

namespace hanse {

namespace {

void prox_keys(KindKeys& keys, Job& job) {
  keys.add("client.mu", job.client.mu, at_least(0),
           "weight of the proximal term mu/2 |w - theta|^2");
}

void importance_key(KindKeys& keys, Job& job) {
  keys.add_choice("aggregator.weights", job.aggregator.weights, {"samples", "uniform"},
                  "share of a client in what the clients send beside their updates: by its "
                  "training samples, or the same for all");
}

void ditto_keys(KindKeys& keys, Job& job) {
  keys.add("client.lambda", job.client.lambda, at_least(0),
           "weight of lambda/2 |v - theta|^2 that pulls a client's own model v to the received "
           "one");
}

void fednew_keys(KindKeys& keys, Job& job) {
  SecondOrderOptions& o = job.client.second_order;
  keys.add("client.alpha", o.alpha, at_least(0), "damping added to the Hessian, in its units");
  keys.add("client.rho", o.rho, above(0),
           "penalty that pulls the clients' directions together, in the Hessian's units; larger "
           "is safer and slower");
  keys.add("client.tolerance", o.tolerance, from_below(0, 1),
           "residual at which conjugate gradients stop, as a share of the right-hand side");
  keys.add("client.iterations", o.iterations, at_least(1),
           "most Hessian-vector products of a client and round");
  importance_key(keys, job);
}

void fednl_keys(KindKeys& keys, Job& job) {
  SecondOrderOptions& o = job.client.second_order;
  keys.add_choice("client.compressor", o.compressor, {"rank", "top"},
                  "what is left of a Hessian's correction: its largest eigenpairs or entries");
  keys.add("client.rank", o.rank, at_least(1), "eigenpairs of client.compressor = rank");
  keys.add("client.top", o.top, at_least(0),
           "entries of the upper triangle of client.compressor = top; 0: 8 a parameter");
  keys.add("client.hessian-rate", o.hessian_rate, above_to(0, 1),
           "share of a correction by which the Hessian's estimate moves");
  keys.add_choice("client.hessian-start", o.hessian_start, {"hessian", "zero"},
                  "first estimate: the Hessian at the first model, sent whole; or zero");
  keys.add_choice("client.safeguard", o.safeguard, {"frobenius", "projection"},
                  "what keeps the server's matrix positive: the estimate's mean distance from the "
                  "Hessian on its diagonal, or eigenvalues of at least client.least-eigenvalue");
  keys.add("client.least-eigenvalue", o.least_eigenvalue, above(0),
           "of the server's matrix with client.safeguard = projection; that of the loss, such as "
           "client.weight-decay, or below");
  importance_key(keys, job);
}

// fednew and fednl are one algorithm of clients and server together.
void check_second_order(const Job& job) {
  const auto require = [&](bool met, const std::string& key, const std::string& needed) {
    if (met) return;
    throw InvalidArgument(fmt::format("{} needs {}", job.client.kind, needed), key,
                          "or another client.update");
  };
  require(sampler_traits(job.sampler).everyone && job.sampler.availability == "always",
          "sampler.kind",
          "everyone in every round: sampler.kind = full, sampler.availability = always");
  require(aggregator_traits(job.aggregator).plain_mean, "aggregator.kind",
          "aggregator.kind = fedavg");
  require(job.client.momentum == 0, "client.momentum", "client.momentum = 0");
  require(job.client.clip == 0, "client.clip", "client.clip = 0");
  require(job.server.optimizer == "sgd", "server.optimizer",
          "server.optimizer = sgd: its step is a step of Newton's");
}

std::unique_ptr<ServerOptimizer> newton_optimizer(const ClientOptions& client, int64_t n_params) {
  const SecondOrderOptions& options = client.second_order;
  return make_newton_optimizer(
      {.starts_from_hessian = options.hessian_start == "hessian",
       .least_eigenvalue = options.safeguard == "projection" ? options.least_eigenvalue : 0},
      n_params);
}

struct UpdateKind {
  KindRow row;
  UpdateTraits traits;
  UpdateMaker make;
  // The server's step; null: that of server.optimizer.
  std::unique_ptr<ServerOptimizer> (*make_optimizer)(const ClientOptions&, int64_t) = nullptr;
};

const std::vector<UpdateKind> kUpdates{
    {{"sgd", "mini-batch SGD"}, {.separable = true}, make_sgd},
    {{"prox", "mini-batch SGD with a proximal term (FedProx, Li et al. 2020)", prox_keys},
     {.separable = true},
     make_sgd},
    {{"scaffold", "SGD with control variates against client drift (Karimireddy et al. 2020)",
      importance_key},
     {.separable = true},
     make_scaffold},
    {{"ditto", "SGD, and a model of each client's own near the shared one (Li et al. 2021)",
      ditto_keys},
     {.own_models = true},
     make_ditto},
    {{"fednew", "a common Newton direction by ADMM, matrix-free (Elgabli et al. 2022)", fednew_keys,
      check_second_order},
     {},
     make_fednew},
    {{"fednl",
      "Newton steps on Hessians learned from compressed corrections (Safaryan et al. 2022)",
      fednl_keys, check_second_order},
     {},
     make_fednl,
     newton_optimizer},
};

const UpdateKind& kind_of(const ClientOptions& options) {
  return find_kind(kUpdates, "client.update", options.kind);
}

// Some tensors, or all, stay with the client.
std::unique_ptr<LocalUpdate> keep_personal(std::unique_ptr<LocalUpdate> update,
                                           const ClientOptions& options,
                                           const ParameterLayout& layout) {
  if (options.alone) return make_personal(std::move(update), {{0, layout.n_params()}});
  if (options.personal.empty()) return update;
  if (!update_traits(options).separable || update->tells_update()) {
    throw InvalidArgument(fmt::format("{} train all tensors together",
                                      update->tells_update() ? "clients that send directions"
                                                             : "clients of " + options.kind),
                          "client.personal",
                          "use client.update = sgd, prox or scaffold, and no aggregator dqn-fed");
  }
  return make_personal(std::move(update), personal_parts(layout, split_list(options.personal)));
}

}  // namespace

KindFamily update_family() {
  return {.name = "updates",
          .key = "client.update",
          .help = "what a participant does with the model",
          .choice = [](Job& job) -> std::string& { return job.client.kind; },
          .rows = rows_of(kUpdates)};
}

UpdateTraits update_traits(const ClientOptions& options) { return kind_of(options).traits; }

bool evaluates_own_models(const Job& job) {
  if (job.evaluate.view != "auto") return job.evaluate.view == "personalised";
  const ClientOptions& client = job.client;
  return client.alone || !client.personal.empty() || update_traits(client).own_models;
}

std::unique_ptr<LocalUpdate> make_update(const Job& job, const Federation& federation,
                                         Model& model) {
  const AggregatorKind& rule = aggregator_kind(job.aggregator);
  ClientOptions options = job.client;
  if (rule.instruct) rule.instruct(job.aggregator, options);
  const UpdateMaker make = rule.make_update ? rule.make_update : kind_of(options).make;
  return keep_personal(make(options, federation, model), options, model.layout());
}

std::unique_ptr<ServerOptimizer> make_optimizer(const Job& job, int64_t n_params) {
  const UpdateKind& kind = kind_of(job.client);
  if (kind.make_optimizer) return kind.make_optimizer(job.client, n_params);
  return make_server_optimizer(job.server, n_params);
}

}  // namespace hanse
