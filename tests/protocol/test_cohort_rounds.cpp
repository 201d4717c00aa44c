// Rounds whose participants are trained side by side: the same as one by one within float
// tolerance, and the same bits for any number of ranks.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/evaluation/evaluation.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/aggregators.hpp"
#include "hanse/kinds/families.hpp"
#include "hanse/kinds/updates.hpp"
#include "hanse/model/part_model.hpp"
#include "hanse/rules/sampling/basic.hpp"
#include "protocol/cohort_jobs.hpp"
#include "protocol/resume.hpp"
#include "protocol/trainer_fixture.hpp"
#include "support/devices.hpp"
#include "support/errors.hpp"
#include "support/graph_file.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

constexpr int64_t kRounds = 6;
constexpr uint64_t kSeed = 11;

thread_local double looks = 0;  // at the clock

struct LookedAt final : Clock {
  double now_s() const override { return ++looks; }
};

Federation unequal_federation(Communicator& host) {
  DataOptions data;
  data.kind = "random";
  data.shape = {1, 12, 12};
  data.classes = 3;
  FederationOptions options;
  options.clients = 9;
  options.partition = "sizes";
  options.sizes = {2, 5, 12};
  options.size_probabilities = {0.4, 0.3, 0.3};
  options.held_out = 2;
  return Federation::load(data, options, kSeed, host);
}

ModelOptions model_options(const CohortJob& job) {
  ModelOptions options;
  options.kind = job.model;
  options.hidden = {9};
  if (job.model == "graph") {
    static const std::string path = written(picture_norm_graph());
    options.path = path;
  }
  return options;
}

// The parts of it that the kinds make.
Job kinds_of(const CohortJob& c) {
  Job job;
  job.aggregator.kind = c.rule;
  job.aggregator.radius = 1;
  if (c.rule == "fedheal") job.aggregator.beta = 0.4;
  job.aggregator.backtrack = c.backtrack;
  job.client = c.client;
  job.server = c.server;
  return job;
}

struct CohortRun : TrainerFixture<> {
  CohortRun(Communicator& all, const CohortJob& c) : TrainerFixture(all, unequal_federation) {
    const Job job = kinds_of(c);
    model = make_model(model_options(c), federation.sample_shape(), 3);
    const PartModel* part = nullptr;
    if (PartModel::is_needed(c.part, model->layout())) {
      auto made = std::make_unique<PartModel>(std::move(model), c.part);
      made->hold(*make_single_communicator(), kSeed);
      part = made.get();
      model = std::move(made);
    }
    const int64_t clients = c.client.pooled ? 1 : federation.clients();
    const int64_t drawn = std::min<int64_t>(clients, 7);
    const double share = static_cast<double>(drawn) / static_cast<double>(clients);
    aggregator = make_aggregator(job, federation.clients(), share);
    update = make_update(job, federation, *model, aggregator->needs());
    sampler = c.sampler == "optimal" ? make_optimal_sampler(clients, drawn, true)
                                     : make_uniform_sampler(clients, drawn);
    optimizer = make_optimizer(job, federation.clients(), model->layout().n_trainable());
    settings.seed = kSeed;
    settings.max_participants = 7;
    settings.server = c.server;
    settings.server.role = c.role;
    settings.comm.reduction = c.reduction;
    settings.regret = c.regret;
    settings.own_models = evaluates_own_models(job);
    settings.round_seconds = c.round_seconds;
    static const LookedAt clock;
    if (c.round_seconds > 0) settings.clock = &clock;
    if (c.cohort > 0) {
      runner = make_cohort_runner(
          {comm, federation, *model, *update, aggregator->needs()}, settings,
          std::make_unique<CohortTraining>(instructed_clients(job), federation, model_options(c),
                                           c.device, c.cohort, c.sample_bytes, c.starts, part),
          torch_library().make_staged_communicator(comm));
    }
    start();
  }
};

struct Result {
  std::vector<float> row;
  std::vector<double> losses;  // of the rounds
  std::vector<double> worth;   // what the evaluation tells of each client
};

Result train(int ranks, const CohortJob& job) {
  Result result;
  run_threads(ranks, [&](Communicator& comm) {
    CohortRun run(comm, job);
    for (int64_t round = 0; round < kRounds; ++round) {
      const RoundRecord record = run.trainer->round(false);
      EXPECT_EQ(run.trainer->failure(), nullptr);
      if (comm.rank() == 0) result.losses.push_back(record.loss);
    }
    for (const ClientEvaluation& client : run.trainer->evaluate()) {
      for (const double x : {client.samples, client.loss, client.accuracy, client.train_samples,
                             client.train_loss}) {
        result.worth.push_back(x);
      }
    }
    run.trainer->collect();
    if (comm.rank() != 0) return;
    for (const auto& [name, value] : run.trainer->metrics()) {
      if (std::isfinite(value)) result.worth.push_back(value);
    }
    const auto row = run.trainer->model_row();
    result.row.assign(row.begin(), row.end());
  });
  return result;
}

void expect_near(const std::string& what, CohortJob job) {
  const Result got = train(1, job);
  job.cohort = 0;
  const Result expected = train(1, job);
  ASSERT_EQ(got.row.size(), expected.row.size());
  for (std::size_t i = 0; i < got.row.size(); ++i) {
    ASSERT_NEAR(got.row[i], expected.row[i], 1e-5 * kRounds) << what;
  }
  for (std::size_t i = 0; i < got.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], expected.losses[i], 1e-4) << what;
  }
  ASSERT_EQ(got.worth.size(), expected.worth.size());
  for (std::size_t i = 0; i < got.worth.size(); ++i) {
    EXPECT_NEAR(got.worth[i], expected.worth[i], 1e-4 * (1 + std::abs(expected.worth[i]))) << what;
  }
}

// The ranks are threads that compute at once.
class CohortRounds : public testing::Test {
 protected:
  static void SetUpTestSuite() { torch_library().set_threads(1); }
};

TEST_F(CohortRounds, EqualClientsOneByOne) {
  for (const std::string& device : test_devices()) {
    for (const auto& [name, job] : near_jobs(device)) {
      expect_near(name + " on " + device, job);
    }
  }
}

TEST_F(CohortRounds, SameBitsOnAnyNumberOfRanks) {
  for (const std::string& device : test_devices()) {
    for (auto [name, job] : device_jobs(device)) {
      const Result alone = train(1, job);
      for (int ranks = 2; ranks <= 4; ++ranks) {
        for (const ServerRole role : {ServerRole::kAuto, ServerRole::kDedicated}) {
          job.role = role;
          const Result together = train(ranks, job);
          EXPECT_EQ(together.row, alone.row) << ranks << " " << name_of(role) << " " << name;
          EXPECT_EQ(together.losses, alone.losses) << ranks << " " << name_of(role) << " " << name;
          EXPECT_EQ(together.worth, alone.worth) << ranks << " " << name_of(role) << " " << name;
        }
      }
    }
  }
}

TEST_F(CohortRounds, ResumeIsExactOnAnotherNumberOfRanks) {
  for (const std::string& device : test_devices()) {
    for (auto [name, job] : device_jobs(device)) {
      const Result whole = train(2, job);
      const Kept kept = train_and_keep<CohortRun>(3, job, 2);
      EXPECT_EQ(go_on<CohortRun>(1, job, kept, kRounds - 2), whole.row) << name;
      EXPECT_EQ(go_on<CohortRun>(4, job, kept, kRounds - 2), whole.row) << name;
    }
  }
}

TEST_F(CohortRounds, RecordedStepsHaveTheSameBits) {
  for (const std::string& device : test_devices()) {
    for (auto [name, job] : device_jobs(device)) {
      const Result recorded = train(2, job);
      job.starts.recorded = false;
      const Result one_by_one = train(2, job);
      EXPECT_EQ(recorded.row, one_by_one.row) << name;
      EXPECT_EQ(recorded.losses, one_by_one.losses) << name;
    }
  }
}

// The first cohort of a rank counts however long it takes; the others come too late.
TEST_F(CohortRounds, ATimeLimitLeavesOutWholeCohorts) {
  for (const std::string& device : test_devices()) {
    for (const auto& [ranks, left_out] : {std::pair(1, 4.0), {2, 1.0}, {3, 0.0}}) {
      run_threads(ranks, [&, late = left_out](Communicator& comm) {
        CohortRun run(comm, {.device = device, .round_seconds = 1});
        const RoundRecord record = run.trainer->round(false);
        EXPECT_EQ(run.trainer->failure(), nullptr);
        if (comm.rank() != 0) return;
        const auto column = std::ranges::find(record.more, "left_out", &Metrics::value_type::first);
        ASSERT_NE(column, record.more.end());
        EXPECT_EQ(column->second, late) << ranks;
      });
    }
  }
}

// How often the host waits for the device in a round.
int64_t downloads_of_round(const CohortJob& job) {
  int64_t before = 0, behind = 0;
  run_threads(1, [&](Communicator& comm) {
    CohortRun run(comm, job);
    run.trainer->round(false);
    before = torch_library().downloads();
    run.trainer->round(false);
    behind = torch_library().downloads();
  });
  return behind - before;
}

// Losses, norms and what is out of range come together; an update that is kept is folded later.
TEST_F(CohortRounds, TheHostWaitsOnceForACohort) {
  for (const std::string& device : test_devices()) {
    for (const auto& [rule, times] : {std::pair("fedavg", 1), {"fedmgda+", 2}}) {
      const int64_t whole =
          downloads_of_round({.cohort = 7, .device = device, .rule = rule}) - times;
      EXPECT_GE(whole, 0) << rule;
      for (const int64_t cohort : {1, 2, 3, 6}) {
        const int64_t cohorts = (7 + cohort - 1) / cohort;
        EXPECT_EQ(downloads_of_round({.cohort = cohort, .device = device, .rule = rule}),
                  whole + times * cohorts)
            << rule << ", cohorts of " << cohort;
      }
    }
  }
}

// Sum and model stay on the device until somebody asks for the model.
TEST_F(CohortRounds, TheModelStaysOnTheDevice) {
  for (const std::string& device : test_devices()) {
    for (const char* optimizer : {"sgd", "momentum", "adam", "adagrad", "yogi"}) {
      for (const Reduction reduction : {Reduction::kExact, Reduction::kFast}) {
        EXPECT_EQ(downloads_of_round({.cohort = 7,
                                      .device = device,
                                      .reduction = reduction,
                                      .server = {.optimizer = optimizer, .lr = 0.01}}),
                  1)  // the cohort's losses, norms and what is out of range
            << optimizer << ", " << name_of(reduction);
      }
    }
  }
}

// Every rank ends the round, and the one that trained the client names it.
TEST_F(CohortRounds, ABrokenClientIsNamed) {
  for (const std::string& device : test_devices()) {
    for (const char* rule : {"fedavg", "fedmgda+"}) {
      run_threads(3, [&](Communicator& comm) {
        CohortJob job{.device = device, .rule = rule};
        job.client.lr = 1e30;
        CohortRun run(comm, job);
        const RoundRecord record = run.trainer->round(false);
        EXPECT_TRUE(comm.rank() != 0 || record.failed);
        if (!run.trainer->failure()) return;
        expect_error<TrainingError>([&] { std::rethrow_exception(run.trainer->failure()); },
                                    {"the update of a client is not finite", "client ", "round 1"});
      });
    }
  }
}

}  // namespace
}  // namespace hanse
