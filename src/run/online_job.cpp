#include "hanse/run/online_job.hpp"

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/experts/experts.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/job.hpp"

namespace hanse {

void bind_online(OptionTable& table, OnlineOptions& online) {
  table.add_choice("online.kind", online.kind, known_names("online.kind"),
                   "whose models a node mixes, and how");
  table
      .add("online.peers", online.peers, at_least(0),
           "nodes mixed in a round, drawn anew each time; 0: all")
      .only_for({"fed-exp", "fedsgd"});
  table
      .add("online.eta", online.eta,
           "rate of the exponential weights, a number above 0; auto: sqrt(8 log N / horizon)")
      .only_for({"fed-exp"});
  table
      .add("online.loss-scale", online.loss_scale, at_least(0),
           "losses are divided by it and clipped at 1, since the weights need [0, 1]; 0: a loss "
           "above 1 is an error")
      .only_for({"fed-exp"});
  table
      .add_choice(
          "online.variant", online.variant, {"paper", "corrected"},
          "what the weights learn from: paper: the losses of the peers' mixtures, which soon "
          "are alike; corrected: of the estimates that are mixed")
      .only_for({"fed-exp"});
  table
      .add("online.c", online.c, at_least(0),
           "a node mixes only while |sum_j p_ij (theta_j - Gamma_j) . grad| <= c / sqrt(horizon), "
           "N gradients more a node and round; 0: always mixes")
      .only_for({"fed-exp"});
  table.add_choice("online.order", online.order, {"train-then-predict", "predict-then-train"},
                   "train-then-predict: as in the paper, a model is scored on the batch it has "
                   "learnt from; predict-then-train: before");
  table.add_choice("online.gamma", online.gamma, {"sgd", "ridge-batch", "ridge-all"},
                   "a node's own estimate: SGD on the batch from the node's model, or, for "
                   "model.kind = linear, ridge regression on the batch or on all batches so far");
  table.add("online.steps", online.steps, at_least(1), "sgd: steps on each batch");
  table.add("online.lr", online.lr, above(0), "sgd: step size");
  table.add("online.ridge", online.ridge, above(0),
            "ridge-batch: weight of |Gamma - theta|^2; ridge-all: of |Gamma|^2");
  table.add("online.horizon", online.horizon, at_least(0),
            "batches that each node's samples are cut into; 0: run.rounds at the first start");
  table.add_choice("online.drift", online.drift, {"none", "labels", "swap"},
                   "none: each node's samples in random order; labels: class after class; swap: "
                   "after half of the horizon every node receives the next node's stream");
}

double online_eta(const std::string& text, int64_t nodes, int64_t horizon) {
  if (text == "auto") return best_eta(nodes, horizon);
  double eta = 0;
  try {
    eta = parse_number(text);
  } catch (const InvalidArgument&) {
    throw InvalidArgument(fmt::format("'{}' is neither auto nor a number", text), "online.eta");
  }
  if (!above(0).contains(eta)) {
    throw InvalidArgument(fmt::format("{} is not in {}", text, above(0).text()), "online.eta",
                          "auto is sqrt(8 log N / horizon)");
  }
  return eta;
}

void check_online(const Job& job) {
  const OnlineOptions& online = job.online;
  online_eta(online.eta, 1, 1);
  if (job.run.protocol != "online") return;
  if (job.run.rounds > online.horizon) {
    throw InvalidArgument(fmt::format("the streams have {} batches, and {} rounds are asked for",
                                      online.horizon, job.run.rounds),
                          "run.rounds", "online.horizon is fixed at the first start");
  }
  if (online.gamma != "sgd" && job.model.kind != "linear") {
    throw InvalidArgument(
        fmt::format("ridge regression cannot fit a model of kind {}", job.model.kind),
        "online.gamma", "use model.kind = linear, or online.gamma = sgd");
  }
  if (online.gamma != "sgd" && !job.model.bias) {
    throw InvalidArgument("ridge regression fits a bias too", "online.gamma",
                          "use model.bias = true, or online.gamma = sgd");
  }
  if (online.kind == "fedsgd" && (online.gamma != "sgd" || online.steps != 1)) {
    throw InvalidArgument("fedsgd averages gradients: one step of SGD a round", "online.kind",
                          "use online.gamma = sgd and online.steps = 1");
  }
}

}  // namespace hanse
