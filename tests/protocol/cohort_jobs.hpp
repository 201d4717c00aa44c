// Rounds of all sorts that a cohort's device trains.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hanse/client/options.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/conflicts.hpp"
#include "hanse/kinds/families.hpp"
#include "hanse/model/part_model.hpp"
#include "hanse/protocol/federated_settings.hpp"
#include "support/devices.hpp"

namespace hanse {

struct CohortJob {
  int64_t cohort = 3;  // 0: one by one
  std::string device = "cpu";
  std::string model = "mlp";
  ServerRole role = ServerRole::kAuto;
  std::string rule = "fedavg";
  int64_t backtrack = 0;  // of dqn-fed
  std::string sampler = "uniform";
  Reduction reduction = Reduction::kExact;
  ServerOptions server = {};
  bool regret = false;
  double round_seconds = 0;        // of a clock whose every look takes a second
  int64_t sample_bytes = 1 << 20;  // on the device: all samples of it
  KernelStarts starts = {};
  ClientOptions client = {{.epochs = 2, .batch = 4}, {.lr = 0.1, .momentum = 0.5}};
  TrainedPart part = {};
};

inline ClientOptions proportional_fairness() {
  ClientOptions client{{.epochs = 2, .batch = 4}, {.lr = 0.1, .clip = 0.4}};
  client.propfair = {.base = 1.3};  // some of the losses are beyond it
  return client;
}

inline ClientOptions pooled() {
  ClientOptions client{{.steps = 5, .batch = 30}, {.lr = 0.1}};
  client.pooled = true;
  return client;
}

// A job of an update that keeps something of each client.
inline CohortJob stateful(const std::string& kind) {
  CohortJob job{
      .client = {{.epochs = 2, .batch = 4}, {.lr = 0.1, .weight_decay = 0.02}, {.kind = kind}}};
  job.client.lambda = 0.7;
  job.client.second_order.alpha = 0.3;
  return job;
}

// Clients that send directions, with pairs of the round alone or such as they keep.
inline CohortJob lowering(LoweringRate rate, int64_t batch, int64_t pairs, int64_t backtrack = 0) {
  CohortJob job{.rule = rate == LoweringRate::kLoss ? "adafed" : "dqn-fed",
                .backtrack = backtrack,
                .client = {{.steps = 3, .batch = batch}, {.lr = 0.05}}};
  job.client.rate = rate;
  job.client.pairs = pairs;
  return job;
}

// Moments that clients keep, of steps of three batches, and such as begin anew.
inline CohortJob stepping(const std::string& optimizer, Moments state, double momentum = 0) {
  CohortJob job{.client = {{.epochs = 2, .batch = 4}, {.lr = 0.03, .weight_decay = 0.02}}};
  job.client.optimizer = {.kind = optimizer, .state = state, .beta2 = 0.95, .eps = 1e-2};
  job.client.momentum = momentum;
  job.client.accumulate = state == Moments::kKept ? 3 : 1;
  return job;
}

inline CohortJob with_momentum(CohortJob job) {
  job.client.momentum = 0.6;
  return job;
}

inline CohortJob optimal(CohortJob job) {
  job.sampler = "optimal";
  return job;
}

// The first layer, or all, stays with the client.
inline CohortJob personal(ClientOptions client, bool all = false) {
  client.personal = "fc1.*";
  client.alone = all;
  return {.client = client};
}

// Batch norm and a dense layer, of a file.
inline CohortJob of_graph(CohortJob job) {
  job.model = "graph";
  return job;
}

inline CohortJob of_part(CohortJob job, const TrainedPart& part) {
  job.part = part;
  return job;
}

// A network of a file trains client after client, and its buffers and frozen tensors are in every
// step.
inline std::vector<std::pair<std::string, CohortJob>> graph_jobs() {
  const TrainedPart head{.train = {"bias", "scale"}, .rank = 2, .layers = {"weight"}};
  CohortJob own = personal({{.epochs = 2, .batch = 4}, {.lr = 0.1}, {.kind = "prox", .mu = 0.8}});
  own.client.personal = "weight";
  CohortJob fair{.rule = "fedlf", .client = {{.epochs = 2, .batch = 4}, {.lr = 0.1}}};
  return {
      {"graph", of_graph({.server = {.optimizer = "momentum", .lr = 0.5}})},
      {"graph with scaffold", of_graph(optimal(stateful("scaffold")))},
      {"graph with personal layers", of_graph(own)},
      {"graph in part", of_graph(of_part({}, head))},
      {"mlp in part", of_part(fair, {.train = {"fc2.*"}, .rank = 2, .layers = {"fc1.weight"}})},
  };
}

using NamedJobs = std::vector<std::pair<std::string, CohortJob>>;

// Whatever the device's engine trains; by the name that a failure shows.
inline NamedJobs device_jobs(const std::string& device) {
  NamedJobs jobs{
      {"fedavg", {}},
      {"fedmgda+", {.rule = "fedmgda+"}},
      {"fedlf", {.rule = "fedlf"}},
      {"propfair", {.client = proportional_fairness()}},
      {"optimal", {.sampler = "optimal"}},
      {"regret", {.regret = true}},
      {"server momentum", {.server = {.optimizer = "momentum", .lr = 0.5, .lr_decay = 0.9}}},
      {"server adagrad", {.server = {.optimizer = "adagrad", .lr = 0.01}}},
      {"server adam", {.server = {.optimizer = "adam", .lr = 0.01}}},
      {"averaged", {.server = {.average = true}}},
      {"server yogi", {.rule = "fedmgda+", .server = {.optimizer = "yogi", .lr = 0.01}}},
      {"pooled", {.cohort = 1, .client = pooled()}},
      {"scaffold", stateful("scaffold")},
      {"scaffold with momentum", with_momentum(stateful("scaffold"))},
      {"ditto", stateful("ditto")},
      {"feddyn", stateful("feddyn")},
      {"personal", personal({{.epochs = 2, .batch = 4}, {.lr = 0.1}, {.kind = "prox", .mu = 0.8}})},
      {"personal scaffold", personal(stateful("scaffold").client)},
      {"alone", personal({{.epochs = 2, .batch = 4}, {.lr = 0.1, .momentum = 0.5}}, true)},
      {"optimal scaffold", optimal(stateful("scaffold"))},
      {"adam", stepping("adam", Moments::kFresh)},
      {"kept adamw", stepping("adamw", Moments::kKept)},
      {"kept momentum", optimal(stepping("sgd", Moments::kKept, 0.6))},
      {"kept rmsprop", stepping("rmsprop", Moments::kKept, 0.6)},
      {"dqn-fed", lowering(LoweringRate::kLbfgs, 4, 2)},
      {"dqn-fed with kept pairs", lowering(LoweringRate::kLbfgs, 4, 5, 3)},
      {"dqn-fed of full batches", lowering(LoweringRate::kLbfgs, 0, 5)},
      {"adafed", lowering(LoweringRate::kLoss, 4, 2)},
  };
  const auto graphs = graph_jobs();
  jobs.insert(jobs.end(), graphs.begin(), graphs.end());
  for (auto& [name, job] : jobs) job.device = device;
  return jobs;
}

// The kinds of a family that GPUs train side by side; rules in files or formulas have tests of
// their own, as the one by the server's own update.
inline std::vector<std::string> kinds_on_devices(const std::string& key) {
  std::vector<std::string> names;
  for (const KindFamily& family : kind_families()) {
    for (const auto& row : family.rows) {
      const bool is_own = row.name == "python" || row.name == "plugin" || row.name == "formula" ||
                          row.name == "fltrust";
      if (family.key != key || is_own) continue;
      Job job;
      family.choice(job) = row.name;
      if (why_one_by_one(facts_of(job)).empty()) names.push_back(row.name);
    }
  }
  return names;
}

// Those, every kind of update and rule, and what does not have the same bits everywhere.
inline NamedJobs near_jobs(const std::string& device) {
  NamedJobs jobs = device_jobs(device);
  for (const auto& kind : kinds_on_devices("client.update")) jobs.push_back({kind, stateful(kind)});
  for (const auto& rule : kinds_on_devices("aggregator.kind"))
    jobs.push_back({rule, {.rule = rule}});
  jobs.push_back({"float32 sums", {.reduction = Reduction::kFast}});
  jobs.push_back({"time limit", {.cohort = 1, .round_seconds = 1}});
  jobs.push_back({"lenet", {.model = "lenet"}});
  jobs.push_back({"samples apart", {.rule = "fedlf", .sample_bytes = 0}});
  for (auto& [name, job] : jobs) job.device = device;
  return jobs;
}

}  // namespace hanse
