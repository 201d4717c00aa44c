// An online run small enough to follow: unequal nodes with samples of four values.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hanse/client/cohort_nodes.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/protocol/online.hpp"

namespace hanse {

struct OnlineCase {
  std::string name = "fed-exp";
  std::string rule = "fed-exp";  // fed-exp | local | mean | omni-fedge
  std::string gamma = "sgd";     // sgd | ridge-batch | ridge-all
  int64_t nodes = 7;
  double eta = 1.5;
  double test_fraction = 0.3;
  std::string model = "linear";
  std::vector<int64_t> shape = {4};
  double lr = 0.5;        // of the nodes' own steps
  int64_t steps = 2;      // of a node in a round
  int64_t step_rows = 0;  // samples of a step; 0: the whole batch
  int64_t cohort = 0;     // nodes side by side on a device; 0: one by one on the host
  std::string device = "cpu";
  OnlineTrainer::Settings settings = {
      .seed = 3, .loss_scale = 4, .eta = 1.5, .stream = {.horizon = 9}};
};

// Orders, rules, fits, tests and drifts, for what must hold for all.
std::vector<OnlineCase> online_cases();

Federation online_federation(const OnlineCase& c, Communicator& host);

// One rank's objects.
struct OnlineRun {
  OnlineRun(const OnlineCase& c, Communicator& comm);

  std::unique_ptr<Communicator> host;
  Federation federation;
  std::unique_ptr<Model> model;
  std::unique_ptr<ExpertRule> rule;
  std::unique_ptr<StreamFit> fit;
  std::unique_ptr<CohortNodes> nodes;  // null: on the host
  std::unique_ptr<OnlineTrainer> trainer;
};

// What rank 0 has to show: rows, lines, losses, evaluations and metrics.
struct OnlineOutcome {
  std::vector<float> rows;
  std::vector<double> numbers;
  std::string lines;
  bool operator==(const OnlineOutcome&) const = default;
};

// Rounds up to `rounds`, then collects; an evaluation every third round.
void run_rounds(OnlineRun& run, int64_t rounds, Communicator& comm, OnlineOutcome& outcome);
OnlineOutcome run_on(Communicator& comm, const OnlineCase& c, int64_t rounds);
OnlineOutcome run_on_threads(int ranks, const OnlineCase& c, int64_t rounds);

}  // namespace hanse
