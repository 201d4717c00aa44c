#include "protocol/small_online.hpp"

#include <algorithm>

#include "hanse/model/torch_library.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {

std::vector<OnlineCase> online_cases() {
  std::vector<OnlineCase> cases;
  const auto add = [&](const std::string& name, const std::function<void(OnlineCase&)>& change) {
    OnlineCase c;
    c.name = name;
    change(c);
    cases.push_back(c);
  };
  add("paper", [](OnlineCase&) {});
  add("predict first", [](OnlineCase& c) { c.settings.train_first = false; });
  add("corrected", [](OnlineCase& c) { c.settings.score_estimates = true; });
  add("corrected, predict first", [](OnlineCase& c) {
    c.settings.score_estimates = true;
    c.settings.train_first = false;
  });
  add("in place", [](OnlineCase& c) { c.settings.in_place = true; });
  add("in place, tested, predict first, four peers", [](OnlineCase& c) {
    c.settings.in_place = true;
    c.settings.c = 0.05;
    c.settings.train_first = false;
    c.settings.peers = 4;
  });
  add("omni-fedge of one layer", [](OnlineCase& c) { c.rule = "omni-fedge"; });
  add("omni-fedge", [](OnlineCase& c) {
    c.rule = "omni-fedge";
    c.model = "mlp";
    c.settings.lr = 0.3;
  });
  add("three peers", [](OnlineCase& c) { c.settings.peers = 3; });
  add("tested", [](OnlineCase& c) { c.settings.c = 0.02; });
  add("tested, predict first, two peers", [](OnlineCase& c) {
    c.settings.c = 0.05;
    c.settings.train_first = false;
    c.settings.peers = 2;
  });
  add("local", [](OnlineCase& c) { c.rule = "local"; });
  add("mean", [](OnlineCase& c) { c.rule = "mean"; });
  add("mean of two, predict first", [](OnlineCase& c) {
    c.rule = "mean";
    c.settings.peers = 2;
    c.settings.train_first = false;
  });
  add("ridge on the batch", [](OnlineCase& c) { c.gamma = "ridge-batch"; });
  add("ridge on all, swapped", [](OnlineCase& c) {
    c.gamma = "ridge-all";
    c.settings.stream.drift = Drift::kSwap;
  });
  add("labels in order", [](OnlineCase& c) { c.settings.stream.drift = Drift::kLabels; });
  add("no test samples", [](OnlineCase& c) { c.test_fraction = 0; });
  add("steps of two samples", [](OnlineCase& c) { c.step_rows = 2; });
  add("two nodes", [](OnlineCase& c) { c.nodes = 2; });
  add("one node", [](OnlineCase& c) { c.nodes = 1; });
  add("mlp", [](OnlineCase& c) { c.model = "mlp"; });
  add("dropout", [](OnlineCase& c) {
    c.model = "cnn-cifar";
    c.shape = {3, 8, 8};
    c.nodes = 3;
    c.settings.c = 0.02;
  });
  std::vector<OnlineCase> on_devices;
  for (const OnlineCase& c : cases) {
    if (c.gamma != "sgd" || c.rule == "omni-fedge") continue;
    on_devices.push_back(c);
    on_devices.back().name += ", side by side";
    on_devices.back().cohort = 3;
  }
  cases.insert(cases.end(), on_devices.begin(), on_devices.end());
  return cases;
}

Federation online_federation(const OnlineCase& c, Communicator& host) {
  DataOptions data;
  data.kind = "random";
  data.shape = c.shape;
  data.classes = 3;
  data.test_fraction = c.test_fraction;
  FederationOptions options;
  options.clients = c.nodes;
  options.partition = "power-law";
  options.min_samples = 15;
  options.samples = 40;
  return Federation::load(data, options, 11, host);
}

OnlineRun::OnlineRun(const OnlineCase& c, Communicator& comm)
    : host(comm.split(kByHost)), federation(online_federation(c, *host)) {
  ModelOptions options;
  options.kind = c.model;
  options.hidden = {5};
  model = make_model(options, federation.sample_shape(), federation.classes());
  rule = c.rule == "local"        ? std::make_unique<ExpertRule>(Exchange::kNone, c.nodes)
         : c.rule == "mean"       ? std::make_unique<ExpertRule>(Exchange::kMean, c.nodes)
         : c.rule == "omni-fedge" ? std::make_unique<ExpertRule>(Exchange::kGradients, c.nodes, 0.5)
                                  : std::make_unique<ExpertRule>(Exchange::kAll, c.nodes, c.eta);
  const StepBatch step{.rows = c.step_rows, .sample_values = federation.sample_values()};
  fit = c.gamma == "sgd"
            ? make_sgd_fit(*model, c.steps, c.lr, step)
            : make_ridge_fit(federation.sample_values(), 3, 0.5,
                             c.gamma == "ridge-all" ? RidgeData::kAll : RidgeData::kBatch);
  const auto start = [&](Model& trained, StreamFit& steps, RowMixer mix) {
    trainer = std::make_unique<OnlineTrainer>(OnlineTrainer::Parts{.comm = comm,
                                                                   .federation = federation,
                                                                   .model = trained,
                                                                   .rule = *rule,
                                                                   .fit = steps,
                                                                   .mix_rows = std::move(mix)},
                                              c.settings);
  };
  if (c.cohort == 0) {
    start(*model, *fit, mix_rows);
    return;
  }
  torch_library().set_threads(1);  // ranks are threads that compute at once
  nodes = std::make_unique<CohortNodes>(
      *model, federation, options,
      CohortNodesSettings{.device = c.device,
                          .clients = c.cohort,
                          .batch = Stream::largest_batch(federation, c.settings.stream.horizon),
                          .nodes = (c.nodes + comm.size() - 1) / comm.size(),
                          .steps = c.steps,
                          .lr = c.lr,
                          .step = step});
  start(nodes->model(), nodes->fit(),
        [device = c.device](auto weights, auto rows, int64_t n, auto out) {
          torch_library().mix_rows_on(device, weights, rows, n, out);
        });
}

void run_rounds(OnlineRun& run, int64_t rounds, Communicator& comm, OnlineOutcome& outcome) {
  OnlineTrainer& trainer = *run.trainer;
  while (trainer.completed_rounds() < rounds) {
    const RoundRecord record = trainer.round(false);
    if (trainer.failure()) std::rethrow_exception(trainer.failure());
    outcome.numbers.push_back(record.loss);
    if (trainer.completed_rounds() % 3 == 0) {
      for (const auto& node : trainer.evaluate()) {
        outcome.numbers.insert(outcome.numbers.end(), {node.samples, node.loss, node.accuracy});
      }
      if (comm.rank() == 0) {
        for (const auto& [name, value] : trainer.metrics()) outcome.numbers.push_back(value);
      }
    }
    for (const auto& table : trainer.take_lines()) {
      outcome.lines += table.file + "\n" + table.header + "\n" + table.lines;
    }
  }
  trainer.collect();
  outcome.rows.assign(trainer.model_row().begin(), trainer.model_row().end());
}

OnlineOutcome run_on(Communicator& comm, const OnlineCase& c, int64_t rounds) {
  OnlineRun run(c, comm);
  run.trainer->initialize_model();
  OnlineOutcome outcome;
  run_rounds(run, rounds, comm, outcome);
  return outcome;
}

OnlineOutcome run_on_threads(int ranks, const OnlineCase& c, int64_t rounds) {
  OnlineOutcome outcome;
  run_threads(ranks, [&](Communicator& comm) {
    const OnlineOutcome found = run_on(comm, c, rounds);
    if (comm.rank() == 0) outcome = found;
  });
  return outcome;
}

}  // namespace hanse
