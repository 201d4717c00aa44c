#include "bind.hpp"
#include "hanse/job/job.hpp"

namespace hanse {

void bind_online(OptionTable& table, Job& job) {
  OnlineOptions& online = job.online;
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

}  // namespace hanse
