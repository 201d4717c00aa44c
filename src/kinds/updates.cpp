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

void check_stragglers(const Job& job, const LocalWork& work, const AggregatorNeeds& needs) {
  const auto require = [](bool met, const std::string& chooser, const std::string& needed) {
    if (!met) throw InvalidArgument("stragglers need " + needed, chooser, "client.stragglers = 0");
  };
  if (work.stragglers == 0) return;
  require(std::max(work.epochs, work.steps) > 1, "client.epochs",
          "more than one epoch or step, of which they make a part");
  require(sampler_traits(job.sampler).blind, "sampler.kind",
          "a sampler that does not learn from the length of updates");
  require(!needs.rates, "aggregator.kind", "an aggregator whose clients send whole updates");
}

// fednew and fednl are one algorithm of clients and server together.
void check_second_order(const Job& job) {
  const auto require = [&](bool met, const std::string& chooser, const std::string& needed) {
    if (met) return;
    throw InvalidArgument(fmt::format("{} needs {}", job.client.kind, needed), chooser,
                          "or another client.update");
  };
  require_all_count(job, job.client.kind);
  require(sampler_traits(job.sampler).everyone && is_always(job.sampler.availability),
          "sampler.kind",
          "everyone in every round: sampler.kind = full, sampler.availability = always");
  require(aggregator_traits(job.aggregator).plain_mean, "aggregator.kind",
          "aggregator.kind = fedavg");
  const std::string steps = beyond_plain_steps(job.client), loss = own_loss_key(job.client);
  require(steps.empty(), steps, steps + " as it is by default");
  require(loss.empty(), loss, "the Hessians of model.loss");
  const std::string images = augmentation_key(job.client.augmentation);
  require(images.empty(), images, "samples as they are");
  require(takes_plain_steps(job.server), "server.optimizer",
          "server.optimizer = sgd: its step is a step of Newton's");
}

void check_scaffold(const Job& job) {
  ClientOptions steps = job.client;
  steps.momentum = 0;  // weighs the gradients by numbers that are known
  std::string beyond = beyond_plain_steps(steps);
  if (steps.optimizer.state != Moments::kFresh) beyond = "client.optimizer-state";
  if (beyond.empty()) return;
  throw InvalidArgument(
      fmt::format("scaffold corrects gradient steps and cannot be used with {}", beyond), beyond,
      fmt::format("leave {} as it is by default, or use client.update = sgd", beyond));
}

// FedDyn is one algorithm of clients and server.
void check_feddyn(const Job& job) {
  const auto require = [](bool met, const std::string& chooser, const std::string& needed) {
    if (!met) throw InvalidArgument("feddyn needs " + needed, chooser, "or another client.update");
  };
  const SamplerTraits sampler = sampler_traits(job.sampler);
  require(sampler.even && !sampler.in_rounds, "sampler.kind", "sampler.kind = uniform or full");
  require(aggregator_traits(job.aggregator).plain_mean &&
              job.aggregator.estimator == Estimator::kNormalized,
          "aggregator.kind", "aggregator.kind = fedavg with aggregator.estimator = normalized");
  require(takes_plain_steps(job.server), "server.optimizer", "server.optimizer = sgd");
  const std::string steps = beyond_plain_steps(job.client);
  require(steps.empty(), steps, steps + " as it is by default");
}

void check_fednova(const Job& job) {
  const auto require = [](bool met, const std::string& chooser, const std::string& needed) {
    if (met) return;
    throw InvalidArgument("fednova counts gradients: it needs " + needed, chooser,
                          "or another client.update");
  };
  require(job.client.optimizer.kind == "sgd", "client.optimizer", "client.optimizer = sgd");
  require(job.client.optimizer.state == Moments::kFresh, "client.optimizer-state",
          "client.optimizer-state = fresh");
}

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
       kImportance, check_scaffold},
      {.separable = true},
      make_scaffold},
     {{"ditto", "SGD, and a model of each client's own near the shared one (Li et al. 2021)",
       key("lambda", &Options::lambda, at_least(0),
           "weight of lambda/2 |v - theta|^2 that pulls a client's own model v to the received "
           "one")},
      {.own_models = true},
      make_ditto},
     {{"fednova",
       "SGD; updates count by their effective steps (Wang et al. 2020)",
       {},
       check_fednova},
      {.separable = true},
      make_fednova},
     {{"feddyn",
       "SGD with a regulariser that moves with the client (Acar et al. 2021)",
       {with_default(
            newton_key("alpha", &NewtonOptions::alpha, above(0),
                       "weight of the regulariser alpha/2 |w - theta|^2"),
            [](Job& job) -> double& { return job.client.second_order.alpha; }, 0.01),
        kImportance},
       check_feddyn},
      {},
      make_feddyn,
      [](const SecondOrderOptions&, int64_t n_params) { return make_dyn_optimizer(n_params); }},
     {{"fednew", "a common Newton direction by ADMM, matrix-free (Elgabli et al. 2022)", kFedNew,
       check_second_order, kCpusAlone},
      {.solves = true},
      make_fednew},
     {{"fednl",
       "Newton steps on Hessians learned from compressed corrections (Safaryan et al. 2022)",
       kFedNl, check_second_order, kCpusAlone},
      {.solves = true},
      make_fednl,
      make_newton_optimizer}}};

// Keeps some tensors, or all, with the client.
std::unique_ptr<LocalUpdate> keep_personal(std::unique_ptr<LocalUpdate> update,
                                           const ClientOptions& options,
                                           const ParameterLayout& layout) {
  if (options.alone) return make_personal(std::move(update), {{0, layout.n_params()}});
  if (options.personal.empty()) return update;
  if (!update_traits(options).separable || update->sends_direction()) {
    throw InvalidArgument(fmt::format("{} train all tensors together",
                                      update->sends_direction() ? "clients that send directions"
                                                                : "clients of " + options.kind),
                          "client.personal",
                          "use client.update = sgd, prox or scaffold, and another aggregator.kind");
  }
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
  const std::string own_loss = own_loss_key(options);
  if (needs.rates && !own_loss.empty()) {
    throw InvalidArgument(job.aggregator.kind + " works on gradients of model.loss", own_loss,
                          "use another aggregator.kind, or leave it as it is by default");
  }
  if (make == make_fednova && (needs.after_training() || needs.norms)) {
    throw InvalidArgument(job.aggregator.kind + " looks at updates, which fednova weighs anew",
                          "client.update",
                          "use a rule that weighs before training, such as fedavg");
  }
  check_stragglers(job, options, needs);
  return keep_personal(make(options, federation, model), options, model.layout());
}

std::unique_ptr<LocalUpdate> make_tuner(const Job& job, const Federation& federation,
                                        Model& model) {
  if (job.evaluate.tune_steps == 0) return nullptr;
  ClientOptions options;
  static_cast<StepOptions&>(options) = job.client;
  options.optimizer.state = Moments::kFresh;
  options.steps = job.evaluate.tune_steps;
  options.batch = job.client.batch;
  options.drop_last = job.client.drop_last;
  options.class_weights = job.client.class_weights;
  options.augmentation = job.client.augmentation;
  return make_sgd(options, federation, model);
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
