#include "other_protocols.hpp"

#include "hanse/base/options.hpp"

namespace hanse {

void bind_bandit(OptionTable& table, BanditOptions& bandit) {
  table.add("bandit.arms", bandit.arms,
            "a test function at random points; file: bandit.path; clusters: of the samples "
            "of a csv (data.path, data.label-column), rewarded by class");
  table.add("bandit.count", bandit.count, at_least(2), "arms drawn, or clusters made");
  table.add("bandit.inputs", bandit.inputs, at_least(1), "arguments of ackley and rastrigin");
  table.add("bandit.negate", bandit.negate,
            "the reward is minus the test function, as in the paper; cosine-8 is then minimised, "
            "the others too");
  table.add("bandit.path", bandit.path,
            "arms = file: a csv of a line an arm, features and then its value");
  table.add("bandit.positive", bandit.positive, at_least(0),
            "arms = clusters: the class whose share is an arm's value, in sorted order from 0");
  table.add("bandit.noise", bandit.noise, at_least(0), "deviation of a reward");
  table.add("bandit.horizon", bandit.horizon, or_auto(at_least(1)),
            "rounds that the automatic options are set for; auto: run.rounds of the first start");
}

void bind_online(OptionTable& table, OnlineOptions& online) {
  table.add("online.order", online.order,
            "train-then-predict: as in the paper, a model is scored on the batch it has "
            "learnt from; predict-then-train: before");
  table.add("online.gamma", online.gamma,
            "a node's own estimate: SGD on the batch from the node's model, or, for "
            "model.kind = linear, ridge regression on the batch or on all batches so far");
  table.add("online.steps", online.steps, at_least(1), "sgd: steps on each batch");
  table.add("online.batch", online.batch, at_least(0), "sgd: samples of a step, in turn; 0: all");
  table.add("online.lr", online.lr, above(0), "sgd: step size");
  table.add("online.ridge", online.ridge, above(0),
            "ridge-batch: weight of |Gamma - theta|^2; ridge-all: of |Gamma|^2");
  table.add("online.horizon", online.horizon, or_auto(at_least(1)),
            "batches that each node's samples are cut into; auto: run.rounds at the first start");
  table.add("online.passes", online.passes, at_least(1), "times each stream comes, in new orders");
  table.add("online.drift", online.drift,
            "none: each node's samples in random order; labels: class after class; swap: "
            "after half of the horizon every node receives the next node's stream");
}

}  // namespace hanse
