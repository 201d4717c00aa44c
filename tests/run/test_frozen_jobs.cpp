// What is frozen of a graph, computed once: the same bits wherever it is kept, with clients side by
// side on a device, one after the other there, and on the host.
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/job/keyed_job.hpp"
#include "hanse/model/frozen_cache.hpp"
#include "hanse/run/assembly.hpp"
#include "hanse/run/catalog.hpp"
#include "hanse/run/engine_choice.hpp"
#include "hanse/run/load_job.hpp"
#include "support/devices.hpp"
#include "support/scratch_folder.hpp"
#include "support/thread_communicator.hpp"
#include "support/two_layer_graph.hpp"

namespace hanse {
namespace {

using Settings = std::vector<std::string>;

const Settings kBase = {"run.seed=3",           "data.kind=random",
                        "data.shape=1,1,4",     "data.classes=3",
                        "federation.clients=7", "federation.samples=9",
                        "model.kind=graph",     "client.train=second.*",
                        "client.batch=4",       "client.lr=0.1",
                        "sampler.per-round=5",  "evaluate.every=1",
                        "attack.clients=2",     "attack.patch=1",
                        "attack.target=1",      "client.lora-layers=second.weight"};

class FrozenJobs : public testing::Test {
 protected:
  FrozenJobs() { std::ofstream(graph_, std::ios::binary) << two_layer_graph().file(); }

  void read(const Settings& settings, KeyedJob& job) const {
    std::ofstream out(folder_ / "job.cfg");
    Overrides overrides{{"model.path", graph_},
                        {"run.out", folder_ / "run"},
                        {"model.frozen-cache-path", folder_.path()}};
    for (const Settings* all : {&kBase, &settings}) {
      for (const std::string& setting : *all) {
        const std::size_t equals = setting.find('=');
        overrides.emplace_back(setting.substr(0, equals), setting.substr(equals + 1));
      }
    }
    out.close();
    load_job(folder_ / "job.cfg", overrides, job);
    check_job(job);
  }

  struct Trained {
    std::vector<float> numbers;  // the model, and the clients' losses
    int64_t values = 0;          // frozen ones of a sample
    int64_t computed = 0;        // blocks, by rank 0
    int64_t blocks = 0;
  };

  // Two rounds. `given`: null: on the host.
  Trained train(Settings settings, const std::string& kept, int ranks, const RankGpu* given) const {
    settings.push_back("model.frozen-cache=" + kept);
    KeyedJob job(catalog());
    read(settings, job);
    Trained trained;
    run_threads(ranks, [&](Communicator& comm) {
      const auto parts = assemble(job, comm, given);
      Protocol& protocol = parts->protocol();
      protocol.initialize_model();
      for (int round = 0; round < 2; ++round) protocol.round(false);
      const auto evaluations = protocol.evaluate();
      protocol.collect();
      EXPECT_EQ(parts->trained_on, given != nullptr ? given->kind : "cpu");
      if (comm.rank() != 0) return;
      const auto row = protocol.model_row();
      trained.numbers.assign(row.begin(), row.end());
      for (const auto& client : evaluations) {
        trained.numbers.push_back(static_cast<float>(client.train_loss));
      }
      if (parts->frozen == nullptr) return;
      trained.values = parts->frozen->values();
      trained.computed = parts->frozen->computed();
      trained.blocks = parts->frozen->shape().blocks;
    });
    return trained;
  }

  // The same bits wherever values are kept, and on three ranks; each block is computed once.
  Trained expect_same_bits(const Settings& settings, const RankGpu* given) const {
    const Trained off = train(settings, "off", 1, given);
    EXPECT_EQ(off.values, 5);
    for (const std::string kept : {"memory", "file", "file"}) {
      const Trained found = train(settings, kept, 1, given);
      EXPECT_EQ(found.numbers, off.numbers) << kept;
      EXPECT_LE(found.computed, found.blocks + kTimed) << kept;
      EXPECT_LT(found.computed, off.computed) << kept;
    }
    EXPECT_EQ(train(settings, "memory", 3, given).numbers, off.numbers);
    EXPECT_EQ(train(settings, "off", 2, given).numbers, off.numbers);
    return off;
  }

  static constexpr int64_t kTimed = 1;  // a block that the assembly computes to time it
  ScratchFolder folder_;
  std::string graph_ = folder_ / "net.graph";
};

RankGpu device() { return {.name = test_devices().back(), .kind = "a device", .shared = true}; }

void expect_near(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4) << i;
}

// Side by side, and one after the other.
TEST_F(FrozenJobs, DevicesComputeWhatIsFrozenOnce) {
  const RankGpu there = device();
  for (const Settings& settings :
       {Settings{},
        {"client.update=scaffold"},
        {"aggregator.kind=krum"},
        {"client.train=", "client.lora=2"},
        {"client.train=", "client.lora=2", "client.lora-dropout=0.3"},
        {"client.train=", "client.lora=2", "model.base-precision=bfloat16"},
        {"client.train=", "client.lora=2", "client.lora-kind=flora"},
        {"privacy.kind=central", "privacy.unit=sample", "privacy.clip=0.5"},
        {"evaluate.tune-steps=2"}}) {
    SCOPED_TRACE(settings.empty() ? "plain" : settings.back());
    const Trained found = expect_same_bits(settings, &there);
    expect_near(found.numbers, train(settings, "memory", 1, nullptr).numbers);
  }
}

// Patched samples are none of the data, and are computed in the batch.
TEST_F(FrozenJobs, PatchedSamplesAreComputed) {
  const RankGpu there = device();
  const Settings backdoor = {"attack.kind=backdoor"};
  const Trained found = expect_same_bits(backdoor, &there);
  expect_near(found.numbers, train(backdoor, "memory", 1, nullptr).numbers);
  EXPECT_NE(found.numbers, train({}, "memory", 1, &there).numbers);
}

TEST_F(FrozenJobs, SomeSamplesStayOutsideTheDevice) {
  RankGpu there = device();
  const Trained all = train({}, "memory", 1, &there);
  there.sample_bytes = int64_t{1} << 20;
  EXPECT_EQ(train({}, "memory", 1, &there).numbers, all.numbers);
}

TEST_F(FrozenJobs, TheHostComputesOnce) {
  expect_same_bits({}, nullptr);
  expect_same_bits({"attack.kind=backdoor"}, nullptr);
  expect_same_bits({"client.train=", "client.lora=2", "model.base-precision=bfloat16"}, nullptr);
}

}  // namespace
}  // namespace hanse
