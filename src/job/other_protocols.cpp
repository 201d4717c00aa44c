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

void bind_statistics(OptionTable& table, StatisticsOptions& statistics) {
  const auto add = [&](const std::string& name, auto& field, auto... rest) {
    table.add("statistics." + name, field, rest...);
  };
  add("on", statistics.on, "the samples that count: all, those for training, or those for tests");
  add("columns", statistics.columns,
      "columns that are described, or that predict: names with * and ?, separated by commas");
  add("by", statistics.by,
      "a column, client or label: one result a group of samples, and one for all; log-rank "
      "compares these groups");
  add("level", statistics.level, Range{0, 1, true, true}, "share of intervals that hold the truth");
  add("least-count", statistics.least_count, between(0, 1000),
      "groups, cells and risk sets of fewer samples are left empty, and counted as suppressed; "
      "0: none");
  add("iterations", statistics.iterations, at_least(1), "steps of a fit at most");
  add("tolerance", statistics.tolerance, above_to(0, 1),
      "relative change of a fit's target at which it ends");
  add("bins", statistics.bins, between(1, 1000000), "histogram: bins from minimum to maximum");
  add("edges", statistics.edges, Range(), "histogram: ends of bins, ascending; empty: of bins");
  add("probabilities", statistics.probabilities, between(0, 1), "quantiles: which");
  add("rows", statistics.rows, "crosstab: the column of its rows; statistics.by has the columns");
  add("low", statistics.low, Range(),
      "with privacy.kind = central: what is known beforehand of each column, its least value; "
      "crosstab: of rows and columns");
  add("high", statistics.high, Range(), "likewise its largest value");
  add("target", statistics.target, "glm: the column that is explained; empty: the label");
  add("family", statistics.family, "glm: the law of the target, with its canonical link");
  add("offset", statistics.offset, "glm: a column that is added to the linear part");
  add("weights", statistics.weights, "glm: a column of frequencies; empty: every sample counts 1");
  add("intercept", statistics.intercept, "glm: add a constant");
  add("robust", statistics.robust, "glm, cox: standard errors by the sandwich");
  add("scale", statistics.scale, "pca: of correlations or of covariances");
  add("components", statistics.components, at_least(1), "pca: components that are told");
  add("clusters", statistics.clusters, between(2, 1000), "kmeans, gmm: clusters");
  add("starts", statistics.starts, between(1, 1000),
      "kmeans, gmm: starts of k-means++, of which the best one counts");
  add("covariance", statistics.covariance, "gmm: of each cluster");
  add("time", statistics.time, "survival: the column of times, at least 0");
  add("event", statistics.event, "survival: the column that is 1 at an event and 0 where censored");
  add("strata", statistics.strata, "cox, log-rank: a column; risk sets are of one value of it");
  add("ties", statistics.ties, "cox: what counts of events at one time");
  add("weighting", statistics.weighting,
      "log-rank: weights of the times: 1, n or sqrt(n), of n at risk");
  add("grid", statistics.grid, at_least(0),
      "survival: times are rounded up to its multiples; 0: "
      "they stay");
}

}  // namespace hanse
