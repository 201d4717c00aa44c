// Whatever a job asks for, a GPU trains it as the CPU does: a whole job on a GPU that pretends, for
// every kind and for each fact for which a GPU trains one client after the other.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/job/keyed_job.hpp"
#include "hanse/kinds/conflicts.hpp"
#include "hanse/kinds/own_rules.hpp"
#include "hanse/run/assembly.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/engine_choice.hpp"
#include "hanse/run/load_job.hpp"
#include "protocol/resume.hpp"
#include "run/assemble/protocols.hpp"
#include "support/devices.hpp"
#include "support/scratch_folder.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

using Settings = std::vector<std::string>;  // "client.accumulate=2"

// Seven clients, of whom four take part. Kinds that need a number have one.
const Settings kBase = {
    "run.seed=3",
    "data.kind=random",
    "data.shape=1,6,6",
    "data.classes=3",
    "federation.clients=7",
    "federation.held-out=1",
    "federation.samples=9",
    "model.kind=mlp",
    "model.hidden=5",
    "client.batch=4",
    "client.lr=0.1",
    "client.mu=0.5",
    "client.alpha=0.5",
    "client.schedule-length=5",
    "sampler.per-round=5",
    "sampler.horizon=2",
    "attack.clients=1",
    "attack.target=1",
    "attack.patch=1",
    "privacy.noise=1",
    "async.concurrency=3",
    "async.buffer=2",
    "online.horizon=2",
    "run.rounds=2",
    "sampler.formula=lambda + a + 0.1 / age",
    "aggregator.formula=n * exp(F) / (1 + norm)",
    "evaluate.every=1",
    "federation.partition=iid",
};

// A job file of the base, in a folder of its own.
class BaseJob {
 public:
  BaseJob() {
    std::ofstream out(path());
    for (const std::string& setting : kBase) out << setting << "\n";
    out << "run.out=" << folder_ / "run"
        << "\n";
  }
  std::string path() const { return folder_ / "job.cfg"; }
  // Reads it with these settings in the place of its own.
  void read(const Settings& settings, KeyedJob& job) const {
    Overrides overrides;
    for (const std::string& setting : settings) {
      const std::size_t equals = setting.find('=');
      overrides.emplace_back(setting.substr(0, equals), setting.substr(equals + 1));
    }
    load_job(path(), overrides, job);
    check_job(job);
  }

 private:
  ScratchFolder folder_;
};

struct Trained {
  std::vector<float> model;
  std::vector<double> losses;  // of the clients, behind the rounds
  std::string on;
};

// Two rounds; complete on rank 0. Collective.
Trained train(const Job& job, Communicator& comm, const RankGpu* given) {
  const auto parts = assemble(job, comm, given);
  Protocol& protocol = parts->protocol();
  protocol.initialize_model();
  for (int round = 0; round < 2; ++round) protocol.round(false);
  Trained trained{.on = parts->trained_on};
  for (const auto& client : protocol.evaluate()) trained.losses.push_back(client.train_loss);
  protocol.collect();
  const auto row = protocol.model_row();
  trained.model.assign(row.begin(), row.end());
  return trained;
}

RankGpu pretended() { return {.name = test_devices().front(), .kind = "pretended"}; }

void expect_near(const Trained& found, const Trained& expected, double tolerance) {
  ASSERT_EQ(found.model.size(), expected.model.size());
  double largest = 1e-3, error = 0;
  for (std::size_t i = 0; i < expected.model.size(); ++i) {
    if (std::isnan(expected.model[i]) && std::isnan(found.model[i])) continue;
    largest = std::max(largest, std::abs(static_cast<double>(expected.model[i])));
    error = std::max(error, std::abs(static_cast<double>(found.model[i] - expected.model[i])));
  }
  EXPECT_LE(error, tolerance * largest);
  ASSERT_EQ(found.losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < expected.losses.size(); ++i) {
    EXPECT_NEAR(found.losses[i], expected.losses[i], tolerance * (1 + expected.losses[i])) << i;
  }
}

// Trains the job on the CPU and on the GPU.
void expect_trains(const Job& job, double tolerance = 1e-4) {
  const auto single = make_single_communicator();
  const RankGpu device = pretended();
  const Trained expected = train(job, *single, nullptr), found = train(job, *single, &device);
  EXPECT_EQ(expected.on, "cpu");
  EXPECT_EQ(found.on, "pretended");
  expect_near(found, expected, tolerance);
}

class GpuJobs : public testing::Test {
 protected:
  void SetUp() override {
    if (test_devices().front() == "cpu") GTEST_SKIP() << "without a GPU that pretends";
  }
};

// Kinds that need files or samples of another shape, large models, and what only divides samples.
bool needs_more(const std::string& family, const std::string& kind) {
  static const std::set<std::string> others = {"lstm",     "transformer", "graph",
                                               "cnn-leaf", "cnn-cifar",   "cnn-mcmahan"};
  return is_own_rule(kind) || (family == "model.kind" && others.contains(kind)) ||
         (family == "data.kind" && kind != "random") || family == "federation.partition";
}

// What its kind needs beside it.
Settings settings_of(const std::string& family, const std::string& kind) {
  Settings settings{family + "=" + kind};
  if (family == "model.kind") settings.emplace_back("data.shape=1,16,16");
  if (kind == "fednew") settings.emplace_back("sampler.kind=full");
  if (kind == "fednl") {
    settings.insert(settings.end(),
                    {"model.kind=linear", "client.weight-decay=0.01", "sampler.kind=full"});
  }
  if (kind == "aaggff-s") settings.emplace_back("sampler.kind=full");
  if (kind == "optimal-alie" || kind == "optimal-ipm")
    settings.emplace_back("aggregator.kind=krum");
  if (family == "server.optimizer" && kind != "sgd") settings.emplace_back("server.lr=0.05");
  if (kind == "resnet18")
    settings.insert(settings.end(), {"model.channels=4", "model.groups=2", "client.lr=0.01"});
  if (family == "async.kind") settings.emplace_back("clock.kind=virtual");
  if (family == "run.protocol" && kind != "federated")
    settings.emplace_back("federation.held-out=0");
  if (kind == "monna") settings.emplace_back("sampler.kind=full");
  if (kind == "lipschitz") settings.emplace_back("model.kind=linear");
  return settings;
}

TEST_F(GpuJobs, EveryKindTrains) {
  const BaseJob base;
  int64_t trained = 0;
  for (const std::string protocol : {"federated", "online"}) {
    Job of;
    of.run.protocol = protocol;
    for (const KindFamily& family : catalog()) {
      const bool is_protocol = family.key == "run.protocol";
      if (is_protocol ? protocol != "federated" : !protocol_kind(of).reading.reads(family.key)) {
        continue;
      }
      for (const auto& row : family.rows) {
        if (needs_more(family.key, row.name) || row.cpus_alone) continue;
        SCOPED_TRACE(protocol + ", " + family.key + " = " + row.name);
        Settings settings = settings_of(family.key, row.name);
        if (protocol == "online") {
          settings.insert(settings.end(), {"run.protocol=online", "federation.held-out=0"});
        }
        KeyedJob job(catalog());
        base.read(settings, job);
        expect_trains(job);
        ++trained;
      }
    }
  }
  EXPECT_GT(trained, 100);
}

struct Case {
  Settings settings;
  double tolerance = 1e-4;
};

// What a job may ask for beside its kinds.
std::vector<Case> cases(const std::string& table) {
  const Settings several = {"data.kind=csv",         "data.path=" + table,
                            "data.label-column=a,b", "model.loss=squared-error",
                            "federation.held-out=0", "data.shape=",
                            "data.task=regression"};
  return {
      {{"aggregator.kind=fedlf", "aggregator.absent=window"}},
      {{"aggregator.kind=fedheal"}},
      {{"aggregator.kind=krum"}},
      {{"attack.kind=ipm"}},
      {{"attack.kind=replace"}},
      {{"attack.kind=label-flip"}},
      {{"privacy.kind=central"}, 1e-3},
      {{"privacy.kind=central", "privacy.unit=sample", "privacy.clip=0.5"}, 1e-3},
      {{"sampler.kind=oort", "clock.kind=virtual"}},
      {{"clock.kind=virtual", "async.kind=fedbuff"}},
      {{"clock.kind=virtual", "clock.round=deadline", "clock.deadline-seconds=0.05",
        "clock.speed=lognormal(0, 1)", "clock.late=partial"}},
      {{"client.label-smoothing=0.1", "client.class-weights=client"}},
      {{"client.momentum=0.5", "client.optimizer-state=kept"}},
      {{"client.optimizer=adamw"}},
      {{"client.accumulate=2"}},
      {{"client.update=fednew", "sampler.kind=full"}},
      {{"client.crop=1", "client.flip=0.5", "client.cutout=2"}},
      {{"client.mixup=0.4"}},
      {{"comm.compress=top-k", "comm.keep=0.2"}},
      {{"client.worker-momentum=0.5"}},
      {{"evaluate.tune-steps=2"}},
      {{"evaluate.view=personalised"}},
      {{"simulate.sample-us=1"}},
      {{"aggregator.kind=median", "client.train=fc2.*", "client.lora=2",
        "client.lora-layers=fc1.weight"}},
      {{"client.clustered=fc2.*", "federation.models=2", "evaluate.view=personalised"}},
      {{"client.lora=2", "client.lora-layers=fc1.weight", "client.lora-kind=flora"}},
      {{"client.lora=2", "client.lora-layers=fc1.weight", "client.lora-dropout=0.3",
        "evaluate.metrics=lora-gap"}},
      {several},
      {{"run.protocol=online", "federation.held-out=0", "online.gamma=ridge-all",
        "model.kind=linear"}},
  };
}

std::string table_of_two_labels(const ScratchFolder& folder) {
  const std::string path = folder / "table.csv";
  std::ofstream out(path);
  out << "x,y,a,b\n";
  for (int i = 0; i < 70; ++i) {
    out << i % 7 << "," << i % 5 << "," << 0.1 * (i % 3) << "," << 0.2 * (i % 4) << "\n";
  }
  return path;
}

TEST_F(GpuJobs, EveryFactOfOneByOneTrains) {
  const BaseJob base;
  const ScratchFolder folder;
  std::set<std::string> held;
  for (const Case& c : cases(table_of_two_labels(folder))) {
    SCOPED_TRACE(c.settings.front());
    KeyedJob job(catalog());
    base.read(c.settings, job);
    for (const auto& [fact, why] : one_by_one_facts()) {
      if (job.run.protocol == "federated" && fact->holds(facts_of(job))) held.insert(fact->name);
    }
    expect_trains(job, c.tolerance);
  }
  for (const auto& [fact, why] : one_by_one_facts()) {
    if (std::string(fact->key) == "comm.masks") continue;  // of several ranks, below
    EXPECT_TRUE(held.contains(fact->name)) << "no case of " << fact->name;
  }
}

// A job's protocol on the device, as resume.hpp asks for it.
struct DeviceTraining {
  DeviceTraining(Communicator& comm, const Settings& settings) {
    base.read(settings, job);
    parts = assemble(job, comm, &device);
    trainer = &parts->protocol();
    trainer->initialize_model();
  }

  const BaseJob base;
  const RankGpu device = pretended();
  KeyedJob job{catalog()};
  std::unique_ptr<Assembly> parts;
  Protocol* trainer;
};

// The ranks share the clients, and each has the device.
TEST_F(GpuJobs, TheBitsAreThoseOfAnyNumberOfRanksAndOfAResume) {
  for (const Settings& settings :
       {Settings{"aggregator.kind=krum"},
        {"client.update=fednew", "sampler.kind=full"},
        {"evaluate.tune-steps=2", "client.momentum=0.5", "client.optimizer-state=kept"},
        {"privacy.kind=central", "privacy.unit=sample"},
        {"client.mixup=0.4"},
        {"client.clustered=*", "federation.models=3"},
        {"comm.masks=true", "client.optimizer=adam"}}) {
    SCOPED_TRACE(settings.front());
    const auto trained = [&](int before, int ranks) {
      const Kept kept = train_and_keep<DeviceTraining>(before, settings, 1);
      return go_on<DeviceTraining>(ranks, settings, kept, 2);
    };
    const std::vector<float> straight = [&] {
      std::vector<float> row;
      run_threads(1, [&](Communicator& comm) {
        DeviceTraining training(comm, settings);
        for (int round = 0; round < 3; ++round) training.trainer->round(false);
        training.trainer->collect();
        const auto model = training.trainer->model_row();
        row.assign(model.begin(), model.end());
      });
      return row;
    }();
    EXPECT_EQ(trained(1, 2), straight);
    EXPECT_EQ(trained(3, 4), straight);
  }
}

}  // namespace
}  // namespace hanse
