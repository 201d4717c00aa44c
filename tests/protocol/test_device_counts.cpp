// What a round starts on the device and brings from it, as the GPU that pretends counts it: one
// rank and, but for sizes, the rounds of scripts/bench.
#include <compare>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/index.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/aggregators.hpp"
#include "hanse/kinds/families.hpp"
#include "hanse/kinds/updates.hpp"
#include "hanse/rules/sampling/basic.hpp"
#include "model/device/pretended/pretended_gpu.hpp"
#include "protocol/trainer_fixture.hpp"
#include "support/devices.hpp"
#include "support/graph_file.hpp"
#include "support/pooled_graph.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

using pretended::Counts;

// --- The limits.

constexpr int64_t kDownloadsOfACohort = 1,
                  kUploadsOfACohort = 2;     // the second: streams of dropout masks
constexpr int64_t kDownloadsOfTheModel = 0;  // nobody reads it
constexpr int64_t kUploadsOfARound = 0;
constexpr int64_t kWaitsOfAnEvaluation = 1;    // of all clients
constexpr int64_t kStartsOfACohort = 3;        // kernels, operators and graphs
constexpr int64_t kStartsOfAStepOfGraphs = 8;  // besides the clients' graphs

struct Limit {
  std::string model;
  int64_t starts_of_a_step;
};

const std::vector<Limit>& limits() {
  static const std::vector<Limit> all{
      {"linear", 0}, {"mlp", 0}, {"cnn-cifar", 0}, {"lenet", 0}, {"resnet18", 1},
  };
  return all;
}

// Networks of the user's own.
const std::map<std::string, GraphText>& graphs() {
  static const std::map<std::string, GraphText> all{{"dropout", dropout_graph()},
                                                    {"batch norm", picture_norm_graph()},
                                                    {"max pooling", pooled_graph()}};
  return all;
}

std::vector<int64_t> shape_of(const std::string& model) {
  if (model == "dropout") return {4};
  if (graphs().contains(model)) return {1, 12, 12};
  return {3, 12, 12};
}

// --- Rounds.

struct Round {
  std::string model;
  int64_t cohort;  // clients
  int64_t steps;
  bool augments = false;  // its images

  auto operator<=>(const Round&) const = default;
};

constexpr int64_t kClients = 24, kDrawn = 12, kBatch = 4;

struct CountedRun : TrainerFixture<> {
  CountedRun(Communicator& all, const Round& round)
      : TrainerFixture(all, [&](Communicator& one) {
          return equal_clients(one, shape_of(round.model), round.steps);
        }) {
    Job job;
    job.client = {{.epochs = 1, .batch = kBatch}, {.lr = 0.1}};
    if (round.augments) job.client.augmentation = {.crop = 2, .flip = 0.5, .cutout = 3};
    const ModelOptions options = options_of(round.model);
    model = make_model(options, federation.sample_shape(), federation.classes());
    aggregator = make_aggregator(job, kClients, static_cast<double>(kDrawn) / kClients);
    update = make_update(job, federation, *model, aggregator->needs());
    sampler = make_uniform_sampler(kClients, kDrawn);
    settings.max_participants = kDrawn;
    const std::string device = test_devices().back();
    runner = make_cohort_runner(
        {comm, federation, *model, *update, aggregator->needs()}, settings,
        std::make_unique<CohortTraining>(instructed_clients(job), federation, options, device,
                                         round.cohort, int64_t{1} << 30),
        torch_library().make_staged_communicator(comm));
    start();
  }

  static Federation equal_clients(Communicator& host, const std::vector<int64_t>& shape,
                                  int64_t steps) {
    DataOptions data;
    data.kind = "random";
    data.shape = shape;
    data.classes = 3;
    data.test_fraction = 0;
    const FederationOptions options{
        .clients = kClients, .partition = "iid", .samples = steps * kBatch};
    return Federation::load(data, options, 7, host);
  }

  static ModelOptions options_of(const std::string& kind) {
    ModelOptions options;
    if (const auto graph = graphs().find(kind); graph != graphs().end()) {
      options.kind = "graph";
      options.path = written(graph->second);
      return options;
    }
    options.kind = kind;
    options.hidden = {16};
    options.channels = 4;
    options.groups = 2;
    return options;
  }
};

// What a round counts when all that is made once has been made.
Counts measure(const Round& round) {
  Counts before, behind;
  run_threads(1, [&](Communicator& comm) {
    CountedRun run(comm, round);
    for (int i = 0; i < 3; ++i) {
      before = pretended::pretended_gpu()->counts();
      run.trainer->round(false);
      behind = pretended::pretended_gpu()->counts();
    }
    EXPECT_EQ(run.trainer->failure(), nullptr);
  });
  return behind - before;
}

Counts counts_of(const Round& round) {
  static std::map<Round, Counts> measured;
  const auto [place, is_new] = measured.try_emplace(round);
  if (is_new) place->second = measure(round);
  return place->second;
}

// What another cohort adds to a round.
Counts counts_of_cohort(const std::string& model, int64_t steps, bool augments = false) {
  return counts_of({model, kDrawn / 3, steps, augments}) -
         counts_of({model, kDrawn / 2, steps, augments});
}

int64_t starts_of(const Counts& counts) { return counts.launches + counts.graph_launches; }

class DeviceCounts : public testing::Test {
 protected:
  void SetUp() override {
    if (pretended::pretended_gpu() == nullptr) GTEST_SKIP() << "HANSE_FAKE_GPU=1 runs it";
    torch_library().set_threads(1);
  }
};

TEST_F(DeviceCounts, StartsAreFew) {
  for (const Limit& limit : limits()) {
    const int64_t of_four = starts_of(counts_of_cohort(limit.model, 4));
    const int64_t of_eight = starts_of(counts_of_cohort(limit.model, 8));
    const int64_t a_step = (of_eight - of_four) / 4;
    EXPECT_LE(a_step, limit.starts_of_a_step) << limit.model;
    EXPECT_LE(of_four - 4 * a_step, kStartsOfACohort) << limit.model;
    EXPECT_LE(of_eight - 8 * a_step, kStartsOfACohort) << limit.model;
  }
}

TEST_F(DeviceCounts, StepsAreRecorded) {
  for (const Limit& limit : limits()) {
    EXPECT_GT(counts_of({limit.model, kDrawn / 2, 4}).graph_launches, 0) << limit.model;
  }
}

// One start a client and step, and some of all clients; masks are drawn where they are needed.
TEST_F(DeviceCounts, ClientsOfGraphsAreRecorded) {
  for (const auto& [model, graph] : graphs()) {
    const Counts of_four = counts_of({model, kDrawn, 4}), of_eight = counts_of({model, kDrawn, 8});
    const Counts four_steps = of_eight - of_four;
    EXPECT_EQ(four_steps.graph_launches, 4 * kDrawn) << model;
    EXPECT_LE(four_steps.launches, 4 * kStartsOfAStepOfGraphs) << model;
    EXPECT_EQ(four_steps.uploads, 0) << model;
    EXPECT_EQ(four_steps.downloads, 0) << model;
    EXPECT_EQ(of_eight.graphs, 0) << model;
    EXPECT_EQ(of_eight.refused, 0) << model;
  }
}

// They cost no start and no upload.
TEST_F(DeviceCounts, AugmentedImagesAreMadeWithinTheSteps) {
  for (const char* model : {"linear", "lenet", "resnet18"}) {
    const Counts plain = counts_of_cohort(model, 8), augmented = counts_of_cohort(model, 8, true);
    EXPECT_EQ(starts_of(augmented), starts_of(plain)) << model;
    EXPECT_GT(augmented.graph_launches, 0) << model;
    EXPECT_EQ(augmented.uploads, plain.uploads) << model;
    EXPECT_EQ(augmented.waits, plain.waits) << model;
  }
}

TEST_F(DeviceCounts, ACohortBringsItsNumbersAtOnce) {
  for (const Limit& limit : limits()) {
    const Counts counts = counts_of_cohort(limit.model, 4);
    EXPECT_LE(counts.downloads, kDownloadsOfACohort) << limit.model;
    EXPECT_LE(counts.waits, kDownloadsOfACohort) << limit.model;
    EXPECT_LE(counts.uploads, kUploadsOfACohort) << limit.model;
  }
}

TEST_F(DeviceCounts, AnEvaluationBringsTheNumbersOfAllClientsAtOnce) {
  for (const Limit& limit : limits()) {
    run_threads(1, [&](Communicator& comm) {
      CountedRun run(comm, {limit.model, kDrawn, 1});
      run.trainer->round(false);
      const Counts before = pretended::pretended_gpu()->counts();
      EXPECT_EQ(run.trainer->evaluate().size(), to_index(kClients));
      const Counts counts = pretended::pretended_gpu()->counts() - before;
      EXPECT_EQ(counts.waits, kWaitsOfAnEvaluation) << limit.model;
      EXPECT_EQ(counts.downloads, kWaitsOfAnEvaluation) << limit.model;
    });
  }
}

TEST_F(DeviceCounts, TheModelStaysOnTheDevice) {
  for (const Limit& limit : limits()) {
    const Counts all = counts_of({limit.model, kDrawn / 2, 4});
    const Counts cohort = counts_of_cohort(limit.model, 4);
    const Counts rest = all - cohort - cohort;
    EXPECT_LE(rest.downloads, kDownloadsOfTheModel) << limit.model;
    EXPECT_LE(rest.uploads, kUploadsOfARound) << limit.model;
  }
}

}  // namespace
}  // namespace hanse
