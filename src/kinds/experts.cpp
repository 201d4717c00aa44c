#include "hanse/kinds/experts.hpp"

#include <fmt/format.h>

#include "families.hpp"
#include "hanse/base/error.hpp"

namespace hanse {

namespace {

void check_gradients(const Job& job) {
  if (job.online.gamma == NodeEstimate::kSgd && job.online.steps == 1 && job.online.batch == 0)
    return;
  throw InvalidArgument(job.online.kind + " mixes gradients: one step of SGD a round, on all of it",
                        "online.kind",
                        "use online.gamma = sgd, online.steps = 1 and online.batch = 0");
}

void check_steps(const Job& job) {
  if (job.online.gamma == NodeEstimate::kSgd) return;
  throw InvalidArgument(job.online.kind + " averages steps of SGD", "online.kind",
                        "use online.gamma = sgd");
}

struct ExpertKind : KindRow<Job> {
  Exchange exchange;
};

using Options = OnlineOptions;
const auto key = keys_of<Job>("online", &Job::online);
const Keys<Job> kPeers = key("peers", &Options::peers, at_least(0),
                             "nodes mixed in a round, drawn anew each time; 0: all");

const Family<ExpertKind> kExperts{
    "online",
    "online.kind",
    "whose models a node mixes, and how",
    chosen_by<&Job::online, &OnlineOptions::kind>,
    {{{"fed-exp",
       "each node mixes all by exponential weights (Kesanapalli and Bharath 2021)",
       {kPeers,
        key("eta", &Options::eta, "auto",
            "rate of the exponential weights, a number above 0; auto: sqrt(8 log N / horizon)"),
        key("loss-scale", &Options::loss_scale, at_least(0),
            "losses are divided by it and clipped at 1, since the weights need [0, 1]; 0: a loss "
            "above 1 is an error"),
        key("variant", &Options::variant,
            "what the weights learn from: paper: the losses of the peers' mixtures, which "
            "soon are alike; corrected: of the estimates that are mixed"),
        key("mixing", &Options::mixing,
            "at-once: all mixtures are of the estimates, as printed; in-place: one after the "
            "other, of those mixed before, as the authors ran it"),
        key("c", &Options::c, at_least(0),
            "a node mixes only while |sum_j p_ij (theta_j - Gamma_j) . grad| <= c / sqrt(horizon), "
            "N gradients more a node and round; 0: always mixes")}},
      Exchange::kAll},
     {{"local", "each node its own model"}, Exchange::kNone},
     {{"fedsgd", "one model, the mean of the nodes' gradient steps", kPeers, check_steps},
      Exchange::kMean},
     {{"omni-fedge",
       "each node its own model, which moves by a mixture of all gradients (Omni-Fedge, 2021)",
       key("lambda", &Options::lambda, above_to(0, 1),
           "power of the weights in sum_j L_j w_j^lambda - lambda sum_j log w_j, which a node's "
           "weights minimise"),
       check_gradients},
      Exchange::kGradients}}};

}  // namespace

KindFamily expert_family() { return listed(kExperts); }

bool exchanges_gradients(const OnlineOptions& options) {
  return kExperts.find(options.kind).exchange == Exchange::kGradients;
}

double online_eta(const OnlineOptions& options, int64_t nodes, int64_t horizon) {
  if (kExperts.find(options.kind).exchange != Exchange::kAll) return 0;
  if (!options.eta) return best_eta(nodes, horizon);
  if (*options.eta > 0) return *options.eta;
  throw InvalidArgument(fmt::format("{} is not in {}", *options.eta, above(0).text()), "online.eta",
                        "auto is sqrt(8 log N / horizon)");
}

std::unique_ptr<ExpertRule> make_experts(const OnlineOptions& options, int64_t nodes,
                                         int64_t horizon) {
  const Exchange exchange = kExperts.find(options.kind).exchange;
  const double eta = online_eta(options, nodes, horizon);
  const double rate = exchange == Exchange::kGradients ? options.lambda : eta;
  return std::make_unique<ExpertRule>(exchange, nodes, rate);
}

std::unique_ptr<StreamFit> make_stream_fit(const Job& job, const Federation& federation,
                                           Model& model) {
  const OnlineOptions& online = job.online;
  const int64_t inputs = federation.sample_values();
  if (online.gamma == NodeEstimate::kSgd) {
    return make_sgd_fit(model, online.steps, online.lr,
                        {.rows = online.batch,
                         .sample_values = inputs,
                         .label_values = federation.label_form().values});
  }
  return make_ridge_fit(
      inputs, model.n_params() / (inputs + 1), online.ridge,
      online.gamma == NodeEstimate::kRidgeAll ? RidgeData::kAll : RidgeData::kBatch);
}

void check_online(const Job& job) {
  const OnlineOptions& online = job.online;
  online_eta(online, 1, 1);
  if (job.run.rounds > online.horizon * online.passes) {
    throw InvalidArgument(fmt::format("the streams have {} batches, and {} rounds are asked for",
                                      online.horizon * online.passes, job.run.rounds),
                          "run.rounds",
                          "online.horizon and online.passes are fixed at the first start");
  }
  if (online.gamma == NodeEstimate::kSgd) return;
  if (!is_linear(job.model)) {
    throw InvalidArgument(
        fmt::format("ridge regression cannot fit a model of kind {}", job.model.kind),
        "online.gamma", "use model.kind = linear, or online.gamma = sgd");
  }
  if (!job.model.bias) {
    throw InvalidArgument("ridge regression fits a bias too", "online.gamma",
                          "use model.bias = true, or online.gamma = sgd");
  }
}

}  // namespace hanse
