// Where a job's clients are trained, and how.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/choice.hpp"
#include "hanse/base/error.hpp"
#include "hanse/client/kinds.hpp"
#include "hanse/config.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/aggregators.hpp"
#include "hanse/kinds/conflicts.hpp"
#include "hanse/kinds/samplers.hpp"
#include "hanse/kinds/updates.hpp"
#include "hanse/model/torch_library.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/engine_choice.hpp"
#include "run/assemble/bounds.hpp"
#include "support/errors.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

// The objects that a job makes, over samples that its model takes, and what its rounds need.
struct MadeJob {
  explicit MadeJob(const Job& job) : comm(make_single_communicator()) {
    DataOptions data = job.data;
    data.kind = "random";
    data.shape = {1, 16, 16};
    if (job.model.kind == "lstm" || job.model.kind == "transformer") data.shape = {12};
    data.classes = 3;
    FederationOptions clients = job.federation;
    clients.clients = 2;
    clients.samples = 8;
    federation = Federation::load(data, clients, 1, *comm);
    ModelOptions small = job.model;
    small.vocabulary = 11;
    small.units = 4;
    small.heads = 2;
    small.channels = 4;
    model = make_model(small, federation.sample_shape(), federation.classes());
    rule = make_aggregator(job, federation.clients(), 1)->needs();
    update = make_update(job, federation, *model, rule);
  }
  // Why GPUs train it one client after the other; empty: side by side.
  std::string one_by_one(const Job& job) const { return why_one_by_one_on_gpus(job, rule); }

  std::unique_ptr<Communicator> comm;
  Federation federation;
  std::unique_ptr<Model> model;
  std::unique_ptr<LocalUpdate> update;
  AggregatorNeeds rule;
};

void fill_job(Job& job) {
  job.sampler.per_round = 2;
  job.sampler.learning.horizon = 5;
}

TEST(EngineChoice, JobsThatGpusTrainSideBySide) {
  for (const auto& row : model_kinds()) {
    if (row.cpus_alone || row.name == "graph") continue;
    const std::string& kind = row.name;
    for (const char* update : {"sgd", "prox", "scaffold", "ditto", "fednova", "feddyn"}) {
      Job job;
      fill_job(job);
      job.model.kind = kind;
      job.client.kind = update;
      EXPECT_EQ(MadeJob(job).one_by_one(job), "") << kind << " " << update;
      if (job.client.kind == "fednova" || job.client.kind == "feddyn") continue;  // fedavg alone
      for (const char* rule : {"qfedavg", "aaggff-d", "fedmgda+", "fedlf", "propfair"}) {
        job.aggregator.kind = rule;
        EXPECT_EQ(MadeJob(job).one_by_one(job), "") << rule;
      }
    }
    for (const char* rule : {"dqn-fed", "adafed"}) {
      Job job;
      fill_job(job);
      job.model.kind = kind;
      job.aggregator.kind = rule;
      EXPECT_EQ(MadeJob(job).one_by_one(job), "") << kind << " " << rule;
    }
  }
}

TEST(EngineChoice, GpusMakeEveryStepOfAClient) {
  for (const std::string& optimizer : names_of(client_optimizer_kinds())) {
    for (const Moments state : {Moments::kFresh, Moments::kKept}) {
      for (const int64_t accumulate : {1, 3}) {
        Job job;
        fill_job(job);
        job.client.optimizer.kind = optimizer;
        job.client.optimizer.state = state;
        job.client.momentum = optimizer == "sgd" || optimizer == "rmsprop" ? 0.5 : 0;
        job.client.accumulate = accumulate;
        EXPECT_EQ(MadeJob(job).one_by_one(job), "") << optimizer;
      }
    }
  }
}

// Updates go to the hosts' sum, or clients start from several models.
TEST(EngineChoice, GpusTrainWhatTheHostsGoOnWith) {
  const std::function<void(Job&)> changes[] = {
      [](Job& job) { job.aggregator.kind = "krum"; },
      [](Job& job) { job.aggregator.kind = "median"; },
      [](Job& job) {
        job.aggregator.kind = "fedheal";
        job.aggregator.beta = 0.4;
      },
      [](Job& job) {
        job.aggregator.kind = "fedlf";
        job.aggregator.absent = AbsentClients::kWindow;
      },
      [](Job& job) {
        job.attack.kind = "optimal-alie";
        job.attack.clients.number = 1;
      },
      [](Job& job) { job.privacy.kind = "distributed"; },
      [](Job& job) { job.comm.masks = AskedMasks::kTrue; },
      [](Job& job) { job.compression.compress = Compress::kSign; },
      [](Job& job) { job.client.worker_momentum = 0.9; },
      [](Job& job) { job.async.kind = "fedasync"; },
      [](Job& job) {
        job.clock.kind = "virtual";
        job.clock.round = RoundEnd::kDeadline;
        job.clock.late = LateRule::kPartial;
      }};
  for (const auto& change : changes) {
    Job job;
    fill_job(job);
    change(job);
    EXPECT_EQ(MadeJob(job).one_by_one(job), "");
  }
}

// The line of the notice names the option that makes it so.
// The update, with a model that has what it compares.
void take_update(const std::string& update, Job& job) {
  job.client.kind = update;
  if (update == "moon" || update == "fedproto") job.model.kind = "mlp";
}

TEST(EngineChoice, WhatGpusTrainOneByOneIsSaidWithItsKey) {
  const auto said = [](const std::string& key, const std::function<void(Job&)>& change) {
    Job job;
    fill_job(job);
    change(job);
    const std::string why = MadeJob(job).one_by_one(job);
    EXPECT_TRUE(why.empty() || why.find("(" + key + ")") != std::string::npos) << key << why;
    return !why.empty();
  };
  for (const char* update : {"fednew", "fednl", "apfl", "pfedme", "per-fedavg", "fedsam", "fedntd",
                             "moon", "fedproto"}) {
    EXPECT_TRUE(said("client.update", [&](Job& job) { take_update(update, job); })) << update;
  }
}

// What clients train for and on, and how their models are evaluated.
TEST(EngineChoice, WhatClientsTrainForIsTrainedSideBySide) {
  const std::vector<std::function<void(Job&)>> changes = {
      [](Job& job) { job.sampler.kind = "oort"; },
      [](Job& job) { job.client.label_smoothing = 0.1; },
      [](Job& job) { job.client.class_weights = "client"; },
      [](Job& job) { job.client.augmentation.mixup = 0.5; },
      [](Job& job) { job.attack.kind = "backdoor"; },
      [](Job& job) { job.evaluate.view = EvaluateView::kPersonalised; },
      [](Job& job) { job.evaluate.tune_steps = 3; }};
  for (const auto& change : changes) {
    Job job;
    fill_job(job);
    change(job);
    EXPECT_EQ(MadeJob(job).one_by_one(job), "");
  }
}

// `check` says it of jobs that may get a GPU.
TEST(EngineChoice, CheckSaysWhatIsTrainedOneByOne) {
  Job job;
  fill_job(job);
  job.aggregator.kind = "krum";
  job.run.device = RunDevice::kCpu;
  EXPECT_EQ(one_by_one_text(job), "");
  job.run.device = RunDevice::kCuda;
  EXPECT_EQ(one_by_one_text(job).empty(), why_one_by_one(facts_of(job)).empty());
  job.client.kind = "fednew";
  EXPECT_EQ(one_by_one_text(job).rfind("clients are trained one after the other on the GPU: ", 0),
            0U);
  job.run.protocol = "bandit";
  EXPECT_EQ(one_by_one_text(job), "");
}

// What a row says of GPUs is what the objects of its kind need.
TEST(EngineChoice, RowsKnowWhatGpusTrain) {
  Job job;
  fill_job(job);
  for (const KindFamily& family : catalog()) {
    for (const auto& row : family.rows) {
      Job chosen = job;
      family.choice(chosen) = row.name;
      if (family.key == "client.update") take_update(row.name, chosen);
      if (family.key == "online.kind") chosen.run.protocol = "online";
      const auto refusal = kind_off_gpus(chosen);
      EXPECT_EQ(refusal.has_value(), row.cpus_alone) << row.name;
      EXPECT_TRUE(!refusal || refusal->key == family.key) << row.name;
      const bool is_own = row.name == "python" || row.name == "plugin" || row.name == "formula";
      if (is_own) continue;
      if (family.key == "client.update" || family.key == "client.optimizer") {
        const MadeJob made(chosen);
        EXPECT_EQ(made.update->trains_side_by_side(), made.one_by_one(chosen).empty()) << row.name;
      }
    }
  }
}

TEST(EngineChoice, BoundsAreTrainedAndOtherProtocolsRefused) {
  // By what the bounds make of the clients.
  Job job;
  fill_job(job);
  const MadeJob data(job);
  const Job pooled = bound_job(job, data.federation, Bound::kCentralized);
  EXPECT_EQ(MadeJob(pooled).one_by_one(pooled), "");
  const Job alone = bound_job(job, data.federation, Bound::kLocal);
  EXPECT_EQ(MadeJob(alone).one_by_one(alone), "");
  for (const Precision precision : all_of<Precision>()) {
    job.model.precision = precision;
    EXPECT_FALSE(kind_off_gpus(job));
  }
  job.model.precision = Precision::kFloat32;
  job.run.protocol = "online";
  EXPECT_FALSE(kind_off_gpus(job));
  EXPECT_EQ(why_one_by_one_on_gpus(job, std::nullopt), "");
  job.online.kind = "omni-fedge";
  EXPECT_FALSE(kind_off_gpus(job));
  EXPECT_NE(why_one_by_one_on_gpus(job, std::nullopt), "");
  job.online.kind = "fed-exp";
  job.online.gamma = NodeEstimate::kRidgeAll;
  EXPECT_NE(why_one_by_one_on_gpus(job, std::nullopt).find("online.gamma"), std::string::npos);
  job.run.protocol = "bandit";
  EXPECT_EQ(kind_off_gpus(job)->key, "run.protocol");
  if (!kHasCuda) GTEST_SKIP() << "a build without CUDA";
  job.run.device = RunDevice::kCuda;
  expect_error<InvalidArgument>([&] { check_engine(job); },
                                {"run.protocol", "hint", "run.device = cpu"});
}

TEST(EngineChoice, Tf32IsOfGpusAlone) {
  Job job;
  job.model.precision = Precision::kTf32;
  const auto refused = [&] {
    expect_error<InvalidArgument>([&] { check_engine(job); },
                                  {"tf32 is a format of GPUs, and this run has none",
                                   "model.precision", "use float32 or bfloat16"});
  };
  job.run.device = RunDevice::kCpu;
  refused();
  job.run.device = RunDevice::kAuto;
  if (kHasCuda) {
    EXPECT_NO_THROW(check_engine(job));
  } else {
    refused();
    job.run.device = RunDevice::kCuda;
    expect_error<NotCompiled>([&] { check_engine(job); }, {"CUDA"});
  }
  job.run.device = RunDevice::kCpu;
  job.run.protocol = "bandit";  // which has no such products
  EXPECT_NO_THROW(check_engine(job));
}

TEST(EngineChoice, RanksThatHaveTheSameGpuAreCounted) {
  const std::vector<std::string> apart{"GPU a", "GPU b", "GPU c"};
  const std::vector<std::string> two{"GPU a", "GPU b", "GPU a"};
  EXPECT_EQ(ranks_on_one_gpu(apart, 1), 1);
  EXPECT_EQ(ranks_on_one_gpu(two, 2), 2);
  EXPECT_EQ(ranks_on_one_gpu(two, 4), 2);
  expect_error<InvalidArgument>(
      [&] { ranks_on_one_gpu(two, 1); },
      {"2 ranks have the same GPU, and 1 may", "run.ranks-per-gpu", "hint"});
  expect_error<InvalidArgument>(
      [] {
        ranks_on_one_gpu(std::vector<std::string>{"GPU a", ""}, 4);
      },
      {"no GPU", "run.device", "hint"});
}

// Operations of a sample, samples a batch, clients a cohort.
TEST(EngineChoice, SmallModelsAreNotWorthAGpu) {
  EXPECT_FALSE(is_worth_a_gpu({31400, 10, 10}));  // linear, 784 to 10
  EXPECT_TRUE(is_worth_a_gpu({25520, 20, 10}));   // mlp, 784 to 8 to 10
  EXPECT_TRUE(is_worth_a_gpu({639200, 20, 10}));  // mlp, 784 to 200 to 10
  EXPECT_TRUE(is_worth_a_gpu({0, 20, 10}));       // not known
  EXPECT_TRUE(is_worth_a_gpu({31400, 0, 10}));    // all samples of a client
  EXPECT_TRUE(is_worth_a_gpu({31400, 20, 32}));
}

// Cohorts have one size, which the job and the participants fix.
TEST(EngineChoice, ParticipantsAreDividedIntoEqualCohorts) {
  Job job;
  const int64_t small = 1000, large = 100'000'000;
  EXPECT_EQ(side_by_side(job, 10, small), 10);
  EXPECT_EQ(side_by_side(job, 32, small), 32);
  EXPECT_EQ(side_by_side(job, 33, small), 17);
  EXPECT_EQ(side_by_side(job, 50, small), 25);
  EXPECT_EQ(side_by_side(job, 10, large), 5);  // 8 GiB have room for 7
  EXPECT_EQ(side_by_side(job, 10, 1'000'000'000'000), 1);
  Job of_moments = job;  // two moments and a sum in place of a velocity
  of_moments.client.optimizer.kind = "adam";
  of_moments.client.accumulate = 2;
  EXPECT_EQ(side_by_side(of_moments, 10, large), 4);
  EXPECT_EQ(side_by_side(job, 0, small), 1);
  job.run.device_cohort = 8;
  EXPECT_EQ(side_by_side(job, 10, small), 5);
  EXPECT_EQ(side_by_side(job, 10, large), 5);
  EXPECT_EQ(side_by_side(job, 8, small), 8);
  EXPECT_EQ(side_by_side(job, 3, small), 3);
}

// Without a GPU, auto is the CPU on every rank, and cuda an error on every rank.
TEST(EngineChoice, HostsWithoutGpu) {
  if (!torch_library().gpu.all().empty()) GTEST_SKIP() << "a host with a GPU";
  run_threads(3, [](Communicator& comm) {
    const auto host = comm.split(kByHost);
    Job job;
    fill_job(job);
    const MadeJob made(job);
    const auto choose = [&](const Job& wanted) {
      return choose_engine(wanted, made.one_by_one(job), {0, 20, 8}, comm, *host, nullptr);
    };
    Engine engine = choose(job);
    EXPECT_FALSE(engine.on_gpu());
    const RunnerParts parts{comm, made.federation, *made.model, *made.update, made.rule};
    EXPECT_NE(make_runner(job, engine, {}, parts), nullptr);
    EXPECT_EQ(engine.device.kind, "cpu");
    if (kHasCuda) {  // what fits GPUs alone does not go to the CPU
      Job only = job;
      only.model.precision = Precision::kTf32;
      expect_error<AgreedError>([&] { choose(only); }, {"no GPU", "run.device"});
    }
    job.run.device = RunDevice::kCuda;
    expect_error<AgreedError>([&] { choose(job); }, {"no GPU", "run.device"});
    job.run.device = RunDevice::kCpu;
    EXPECT_FALSE(choose(job).on_gpu());
  });
}

TEST(EngineChoice, VersionsAreThoseOfTheBuild) {
  EXPECT_EQ(kHasCuda, !torch_library().gpu.cuda_version().empty());
  EXPECT_EQ(kHasCuda, !torch_library().gpu.nccl_version().empty());
}

}  // namespace
}  // namespace hanse
