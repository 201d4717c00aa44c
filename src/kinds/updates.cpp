#include "hanse/kinds/updates.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "families.hpp"
#include "hanse/base/error.hpp"
#include "hanse/client/personal.hpp"
#include "hanse/client/second_order.hpp"
#include "hanse/client/updates.hpp"
#include "hanse/kinds/aggregators.hpp"
#include "hanse/kinds/attacks.hpp"
#include "hanse/kinds/clock.hpp"
#include "hanse/kinds/own_rules.hpp"
#include "hanse/kinds/samplers.hpp"

namespace hanse {

namespace {

using Options = ClientOptions;
const auto key = keys_of<Job>("client", &Job::client);
const auto newton_key = keys_of<Job>(
    "client", [](Job& job) -> auto& { return job.client.second_order; });
using NewtonOptions = SecondOrderOptions;

const Keys<Job> kImportance = keys_of<Job>("aggregator", &Job::aggregator)(
    "weights", &AggregatorOptions::weights,
    "share of a client in what the clients send beside their updates: by its training "
    "samples, or the same for all");

const Keys<Job> kFedNew{
    newton_key("alpha", &NewtonOptions::alpha, at_least(0),
               "damping added to the Hessian, in its units"),
    newton_key("rho", &NewtonOptions::rho, above(0),
               "penalty that pulls the clients' directions together, in the Hessian's units; "
               "larger is safer and slower"),
    newton_key("tolerance", &NewtonOptions::tolerance, from_below(0, 1),
               "residual at which conjugate gradients stop, as a share of the right-hand side"),
    newton_key("iterations", &NewtonOptions::iterations, at_least(1),
               "most Hessian-vector products of a client and round"),
    kImportance};

const Keys<Job> kFedNl{
    newton_key("compressor", &NewtonOptions::compressor,
               "what is left of a Hessian's correction: its largest eigenpairs or entries"),
    newton_key("rank", &NewtonOptions::rank, at_least(1), "eigenpairs of client.compressor = rank"),
    newton_key("top", &NewtonOptions::top, or_auto(at_least(1)),
               "entries of the upper triangle of client.compressor = top; auto: 8 a parameter"),
    newton_key("hessian-rate", &NewtonOptions::hessian_rate, above_to(0, 1),
               "share of a correction by which the Hessian's estimate moves"),
    newton_key("hessian-start", &NewtonOptions::hessian_start,
               "first estimate: the Hessian at the first model, sent whole; or zero"),
    newton_key("safeguard", &NewtonOptions::safeguard,
               "what keeps the server's matrix positive: the estimate's mean distance from the "
               "Hessian on its diagonal, or eigenvalues of at least client.least-eigenvalue"),
    newton_key("least-eigenvalue", &NewtonOptions::least_eigenvalue, above(0),
               "least eigenvalue that client.safeguard = projection leaves to the server's matrix; "
               "that of the loss, such "
               "as client.weight-decay, or below"),
    kImportance};

// Clients that do a part of a round's work.
const Keys<Job> kStragglers =
    key("stragglers", &Options::stragglers, between(0, 1),
        "share of the participants that make only 1 to client.epochs of their epochs (or 1 to "
        "client.steps steps), each number as likely");

using UpdateMaker = std::unique_ptr<LocalUpdate> (*)(const ClientOptions& options,
                                                     const Federation& federation, Model& model);

struct UpdateKind : KindRow<Job> {
  UpdateTraits traits;
  UpdateMaker make;
  // Makes the server's step; null: server.optimizer does.
  std::unique_ptr<ServerOptimizer> (*make_optimizer)(const SecondOrderOptions&, int64_t) = nullptr;
};

const Family<UpdateKind> kUpdates{
    "updates",
    "client.update",
    "what a participant does with the model",
    chosen_by<&Job::client, &ClientOptions::kind>,
    {{{"sgd", "mini-batch SGD", kStragglers}, {.separable = true, .straggles = true}, make_sgd},
     {{"prox",
       "mini-batch SGD with a proximal term (FedProx, Li et al. 2020)",
       {key("mu", &Options::mu, at_least(0), "weight of the proximal term mu/2 |w - theta|^2"),
        kStragglers}},
      {.separable = true, .straggles = true},
      make_prox},
     {{"scaffold", "SGD with control variates against client drift (Karimireddy et al. 2020)",
       kImportance},
      {.separable = true, .keeps = true, .control = true},
      make_scaffold},
     {{"ditto", "SGD, and a model of each client's own near the shared one (Li et al. 2021)",
       key("lambda", &Options::lambda, at_least(0),
           "weight of lambda/2 |v - theta|^2 that pulls a client's own model v to the received "
           "one")},
      {.own_models = true, .keeps = true},
      make_ditto},
     {{"fednova", "SGD; updates count by their effective steps (Wang et al. 2020)"},
      {.separable = true},
      make_fednova},
     {{"feddyn",
       "SGD with a regulariser that moves with the client (Acar et al. 2021)",
       {with_default(
            newton_key("alpha", &NewtonOptions::alpha, above(0),
                       "weight of the regulariser alpha/2 |w - theta|^2"),
            [](Job& job) -> double& { return job.client.second_order.alpha; }, 0.01),
        kImportance}},
      {.keeps = true, .control = true},
      make_feddyn,
      [](const SecondOrderOptions&, int64_t n_params) { return make_dyn_optimizer(n_params); }},
     {{"fednew", "a common Newton direction by ADMM, matrix-free (Elgabli et al. 2022)", kFedNew},
      {.solves = true, .keeps = true, .control = true},
      make_fednew},
     {{"fednl",
       "Newton steps on Hessians learned from compressed corrections (Safaryan et al. 2022)",
       kFedNl},
      {.solves = true, .keeps = true, .control = true},
      make_fednl,
      make_newton_optimizer}}};

// Keeps some tensors, or all, with the client.
std::unique_ptr<LocalUpdate> keep_personal(std::unique_ptr<LocalUpdate> update,
                                           const ClientOptions& options,
                                           const ParameterLayout& layout) {
  if (options.alone) return make_personal(std::move(update), {{0, layout.n_params()}});
  if (options.personal.empty()) return update;
  return make_personal(std::move(update), personal_parts(layout, split_list(options.personal)));
}

}  // namespace

KindFamily update_family() { return listed(kUpdates); }

UpdateTraits update_traits(const ClientOptions& options) {
  return kUpdates.find(options.kind).traits;
}

ClientOptions instructed_clients(const Job& job) {
  ClientOptions options = job.client;
  const AggregatorTraits& rule = aggregator_traits(job.aggregator);
  if (rule.instruct) rule.instruct(job.aggregator, options);
  if (!update_traits(options).straggles) options.stragglers = 0;
  return options;
}

bool evaluates_own_models(const Job& job) {
  const EvaluateView view = job.evaluate.view;
  if (view != EvaluateView::kAuto) return view == EvaluateView::kPersonalised;
  const ClientOptions& client = job.client;
  return client.alone || !client.personal.empty() || update_traits(client).own_models;
}

std::unique_ptr<LocalUpdate> make_update(const Job& job, const Federation& federation, Model& model,
                                         const AggregatorNeeds& needs) {
  ClientOptions options = instructed_clients(job);
  options.poison = poison_of(job, federation.clients());
  const UpdateMaker make = needs.rates ? make_quasi_newton : kUpdates.find(options.kind).make;
  return keep_personal(make(options, federation, model), options, model.layout());
}

ClientOptions tuner_options(const Job& job) {
  ClientOptions options;
  static_cast<StepOptions&>(options) = job.client;
  static_cast<LossOptions&>(options) = job.client;
  options.optimizer.state = Moments::kFresh;
  options.steps = job.evaluate.tune_steps;
  options.batch = job.client.batch;
  options.drop_last = job.client.drop_last;
  options.augmentation = job.client.augmentation;
  return options;
}

std::unique_ptr<LocalUpdate> make_tuner(const Job& job, const Federation& federation,
                                        Model& model) {
  if (job.evaluate.tune_steps == 0) return nullptr;
  return make_sgd(tuner_options(job), federation, model);
}

std::unique_ptr<ServerOptimizer> make_optimizer(const Job& job, int64_t clients, int64_t n_params) {
  const UpdateKind& kind = kUpdates.find(job.client.kind);
  if (kind.make_optimizer) return kind.make_optimizer(job.client.second_order, n_params);
  if (is_own_rule(job.server.optimizer)) {
    return make_own_optimizer(own_rule("server", job.server.optimizer, job.server.own), clients);
  }
  return make_server_optimizer(job.server, n_params);
}

}  // namespace hanse
