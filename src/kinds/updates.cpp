#include "hanse/kinds/updates.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "families.hpp"
#include "hanse/base/error.hpp"
#include "hanse/client/clustered.hpp"
#include "hanse/client/personal.hpp"
#include "hanse/client/second_order.hpp"
#include "hanse/client/updates.hpp"
#include "hanse/kinds/aggregators.hpp"
#include "hanse/kinds/attacks.hpp"
#include "hanse/kinds/clock.hpp"
#include "hanse/kinds/own_rules.hpp"
#include "hanse/kinds/samplers.hpp"
#include "hanse/model/distillation.hpp"

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

Keys<Job> mu_key(double value, const std::string& help) {
  return with_default(
      key("mu", &Options::mu, at_least(0), help), [](Job& job) -> double& { return job.client.mu; },
      value);
}

Keys<Job> inner_lr_key(const std::string& help) {
  return key("inner-lr", &Options::inner_lr, or_auto(above(0)), help + "; auto: client.lr");
}

const Keys<Job> kApfl{
    key("mixture", &Options::mixture, between(0, 1),
        "share a of the client's own model v in its mixture a v + (1 - a) w with the shared one, "
        "at the start"),
    key("adapt", &Options::adapt, "the share is learned, once a round; false: it stays"),
    key("variant", &Options::variant,
        "paper; reference: 0.02 a is added to the derivative by the share a, as the authors' code "
        "has it")};

const Keys<Job> kPFedMe{
    mu_key(15, "weight of mu/2 |x - w|^2 that pulls a client's own model x to the shared one"),
    key("inner", &Options::inner, at_least(1), "steps of the client's own model a mini-batch"),
    inner_lr_key("size of these steps")};

const Keys<Job> kFedSam{
    with_default(
        newton_key("rho", &NewtonOptions::rho, at_least(0),
                   "distance at which the gradient is taken, along the gradient; 0: none"),
        [](Job& job) -> double& { return job.client.second_order.rho; }, 0.05),
    key("global-momentum", &Options::global_momentum, from_below(0, 1),
        "share of the last round's mean direction in a step, the rest is the gradient: above 0 "
        "MoFedSAM, and with client.rho = 0 FedCM (Xu et al. 2021)"),
    kImportance};

const Keys<Job> kFedNtd{key("distillation", &Options::distillation, at_least(0),
                            "weight beta of the distillation from the received model; 0: none"),
                        key("temperature", &Options::temperature, above(0),
                            "temperature tau of the distillation's probabilities"),
                        kStragglers};

const Keys<Job> kMoon{
    mu_key(1, "weight of the contrast with the received model and the client's last one; 0: none"),
    with_default(
        key("temperature", &Options::temperature, above(0), "temperature tau of the contrast"),
        [](Job& job) -> double& { return job.client.temperature; }, 0.5),
    kStragglers};

const Keys<Job> kFedProto{
    key("lambda", &Options::lambda, at_least(0),
        "weight of the distance between means of classes in a batch and those of all clients; 0: "
        "none"),
    key("variant", &Options::variant,
        "paper; reference: the mean squared distance of each sample, and the clients' means count "
        "alike, whatever they have of a class, as in the authors' code"),
    kImportance, kStragglers};

void look_at_contrast(const ClientOptions& options, UpdateTraits& traits) {
  traits.own_loss = traits.one_by_one = traits.keeps = traits.represents = options.mu > 0;
}

void contrast_models(const ClientOptions& options, Model& network) {
  if (options.mu > 0) contrast_with_models(network, options.mu, options.temperature);
}

void look_at_pull(const ClientOptions& options, UpdateTraits& traits) {
  traits.own_loss = options.lambda > 0;
}

void pull_to_means(const ClientOptions& options, Model& network) {
  if (options.lambda == 0) return;
  const bool is_paper = options.variant == UpdateVariant::kPaper;
  pull_to_class_means(network, options.lambda,
                      is_paper ? MeanDistance::kOfMeans : MeanDistance::kOfSamples);
}

void look_at_sharpness(const ClientOptions& options, UpdateTraits& traits) {
  traits.control = options.global_momentum > 0;
  traits.separable = !traits.control;
  traits.one_by_one = traits.control || options.second_order.rho > 0;
}

void look_at_distillation(const ClientOptions& options, UpdateTraits& traits) {
  traits.own_loss = traits.one_by_one = options.distillation > 0;
}

void distill_received(const ClientOptions& options, Model& network) {
  if (options.distillation > 0) {
    distill_not_true(network, options.distillation, options.temperature);
  }
}

using UpdateMaker = std::unique_ptr<LocalUpdate> (*)(const ClientOptions& options,
                                                     const Federation& federation, Model& model);

struct UpdateKind : KindRow<Job> {
  UpdateTraits traits;
  UpdateMaker make;
  // Makes the server's step; null: server.optimizer does.
  std::unique_ptr<ServerOptimizer> (*make_optimizer)(const SecondOrderOptions&, int64_t) = nullptr;
  // What its options make of the traits; null: nothing.
  void (*look_at)(const ClientOptions& options, UpdateTraits& traits) = nullptr;
  // Gives the network a loss of its own; null: there is none.
  void (*take_loss)(const ClientOptions& options, Model& network) = nullptr;
};

const Family<UpdateKind> kUpdates{
    "updates",
    "client.update",
    "what a participant does with the model",
    chosen_by<&Job::client, &ClientOptions::kind>,
    {{{"sgd", "mini-batch SGD", kStragglers}, {.separable = true, .straggles = true}, make_sgd},
     {{"prox",
       "mini-batch SGD with a proximal term (FedProx, Li et al. 2020)",
       {mu_key(0.01, "weight of the proximal term mu/2 |w - theta|^2"), kStragglers}},
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
     {{"apfl", "SGD, and a mixture of the shared model with each client's own (Deng et al. 2020)",
       kApfl},
      {.own_models = true, .keeps = true, .own_steps = true, .one_by_one = true},
      make_apfl},
     {{"pfedme",
       "steps on the Moreau envelope of each client's loss, with models of the clients' own "
       "(T. Dinh et al. 2020)",
       kPFedMe},
      {.own_models = true, .keeps = true, .own_steps = true, .one_by_one = true},
      make_pfedme},
     {{"per-fedavg",
       "a shared model that a step makes each client's own, first order (Fallah et al. 2020)",
       inner_lr_key("size of the step that looks ahead, and of those of evaluate.tune-steps")},
      {.own_steps = true, .one_by_one = true, .adapts = true},
      make_per_fedavg},
     {{"fedsam", "SGD by gradients at the worst point nearby (Qu et al. 2022)", kFedSam},
      {},
      make_fedsam,
      nullptr,
      look_at_sharpness},
     {{"fedntd",
       "SGD, and distillation of the classes that are not true from the received model "
       "(Lee et al. 2022)",
       kFedNtd},
      {.separable = true, .straggles = true},
      make_fedntd,
      nullptr,
      look_at_distillation,
      distill_received},
     {{"moon",
       "SGD, and a contrast of representations with the received and the client's last model "
       "(Li et al. 2021)",
       kMoon},
      {.separable = true, .straggles = true},
      make_moon,
      nullptr,
      look_at_contrast,
      contrast_models},
     {{"fedproto",
       "SGD near the means of all clients' representations of each class (Tan et al. 2022)",
       kFedProto},
      {.separable = true,
       .straggles = true,
       .control = true,
       .one_by_one = true,
       .represents = true,
       .sends_means = true},
      make_fedproto,
      nullptr,
      look_at_pull,
      pull_to_means},
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
  const bool all_may_stay = update_traits(options).sends_means;
  return make_personal(std::move(update),
                       personal_parts(layout, split_list(options.personal), all_may_stay));
}

// A tensor is either the client's own or its cluster's.
void require_apart(const ClientOptions& options, const ClusteredModel& model) {
  if (options.personal.empty()) return;
  for (const RowPart& own : personal_parts(model.plain().layout(), split_list(options.personal))) {
    for (const RowPart& copied : model.places().parts()) {
      if (common_size(own, copied) == 0) continue;
      throw InvalidArgument("tensors that stay with the client have no copies for clusters",
                            "client.clustered", "name other tensors there, or in client.personal");
    }
  }
}

}  // namespace

KindFamily update_family() { return listed(kUpdates); }

UpdateTraits update_traits(const ClientOptions& options) {
  const UpdateKind& kind = kUpdates.find(options.kind);
  UpdateTraits traits = kind.traits;
  if (kind.look_at) kind.look_at(options, traits);
  return traits;
}

ClientOptions instructed_clients(const Job& job) {
  ClientOptions options = job.client;
  const AggregatorTraits& rule = aggregator_traits(job.aggregator);
  if (rule.instruct) rule.instruct(job.aggregator, options);
  if (!update_traits(options).straggles) options.stragglers = 0;
  if (tunes_beyond_training(job)) options.moves = options.train;
  return options;
}

bool tunes_beyond_training(const Job& job) {
  const bool tunes = job.evaluate.tune_steps > 0 && !job.evaluate.tune.empty();
  return tunes && !job.client.train.empty() && !job.client.lora.is_any();
}

std::vector<std::string> row_patterns(const Job& job) {
  std::vector<std::string> patterns = split_list(job.client.train);
  if (!tunes_beyond_training(job)) return patterns;
  const auto tuned = split_list(job.evaluate.tune);
  if (std::ranges::count(tuned, "*") > 0) return {};
  patterns.insert(patterns.end(), tuned.begin(), tuned.end());
  return patterns;
}

bool evaluates_own_models(const Job& job) {
  const EvaluateView view = job.evaluate.view;
  if (view != EvaluateView::kAuto) return view == EvaluateView::kPersonalised;
  const UpdateTraits traits = update_traits(job.client);
  return job.client.keeps_tensors() || traits.own_models || traits.adapts;
}

void take_update_loss(const Job& job, Model& network) {
  const UpdateKind& kind = kUpdates.find(job.client.kind);
  if (kind.take_loss) kind.take_loss(job.client, network);
}

std::unique_ptr<LocalUpdate> make_update(const Job& job, const Federation& federation, Model& model,
                                         const AggregatorNeeds& needs) {
  ClientOptions options = instructed_clients(job);
  options.poison = poison_of(job, federation.clients());
  const UpdateMaker make = needs.rates ? make_quasi_newton : kUpdates.find(options.kind).make;
  const auto made = [&](Model& of_one) {
    return keep_personal(make(options, federation, of_one), options, of_one.layout());
  };
  auto* const clustered = dynamic_cast<ClusteredModel*>(&model);
  if (clustered == nullptr) return made(model);
  require_apart(options, *clustered);
  return std::make_unique<ClusteredUpdate>(made(clustered->plain()), federation, *clustered,
                                           options.copies_of);
}

ClientOptions tuner_options(const Job& job) {
  ClientOptions options;
  static_cast<StepOptions&>(options) =
      update_traits(job.client).adapts ? inner_steps(job.client) : StepOptions(job.client);
  static_cast<LossOptions&>(options) = job.client;
  options.optimizer.state = Moments::kFresh;
  options.steps = job.evaluate.tune_steps;
  options.batch = job.client.batch;
  options.drop_last = job.client.drop_last;
  options.augmentation = job.client.augmentation;
  options.moves = job.evaluate.tune;
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
