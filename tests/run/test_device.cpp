// Where a job's clients are trained, and what is refused.
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "support/thread_communicator.hpp"
#include "hanse/config.hpp"
#include "hanse/model/device.hpp"
#include "hanse/run/device.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

TEST(Device, JobsThatGpusTrain) {
  for (const char* kind : {"linear", "mlp", "cnn-leaf", "cnn-cifar", "lenet"}) {
    for (const char* update : {"sgd", "prox"}) {
      Job job;
      job.model.kind = kind;
      job.client.kind = update;
      EXPECT_NO_THROW(check_gpu_job(job)) << kind << " " << update;
    }
  }
}

TEST(Device, WhatGpusDoNotTrainIsRefusedByItsKey) {
  const auto refused = [](const std::string& key, const std::function<void(Job&)>& change) {
    Job job;
    change(job);
    expect_error<InvalidArgument>([&] { check_gpu_job(job); }, {key, "hint", "run.device = cpu"});
  };
  for (const char* kind : {"lstm", "transformer", "resnet18", "torchscript"}) {
    refused("model.kind", [&](Job& job) { job.model.kind = kind; });
  }
  for (const char* update : {"scaffold", "ditto", "fednew", "fednl"}) {
    refused("client.update", [&](Job& job) { job.client.kind = update; });
  }
  for (const char* rule : {"dqn-fed", "propfair"}) {
    refused("aggregator.kind", [&](Job& job) { job.aggregator.kind = rule; });
  }
  for (const char* protocol : {"centralized", "local", "online", "bandit"}) {
    refused("run.protocol", [&](Job& job) { job.run.protocol = protocol; });
  }
  refused("client.personal", [](Job& job) { job.client.personal = "fc2.*"; });
  refused("comm.reduction", [](Job& job) { job.comm.reduction = "fast"; });
  refused("run.round-seconds", [](Job& job) { job.run.round_seconds = 2; });
}

TEST(Device, RanksThatHaveTheSameGpuAreCounted) {
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

// Without a GPU, auto is the CPU on every rank, and cuda an error on every rank.
TEST(Device, HostsWithoutGpu) {
  if (gpu_count() > 0) GTEST_SKIP() << "a host with a GPU";
  run_threads(3, [](Communicator& comm) {
    const auto host = comm.split_by_host();
    Job job;
    const RankDevice device = choose_device(job, comm, *host);
    EXPECT_EQ(device.name, "");
    EXPECT_EQ(make_device_communicator(comm, device), nullptr);
    job.run.device = "cuda";
    expect_error<AgreedError>([&] { choose_device(job, comm, *host); }, {"no GPU", "run.device"});
    job.run.device = "cpu";
    EXPECT_EQ(choose_device(job, comm, *host).name, "");
  });
}

TEST(Device, VersionsAreThoseOfTheBuild) {
  EXPECT_EQ(kHasCuda, !cuda_version().empty());
  EXPECT_EQ(kHasCuda, !nccl_version().empty());
}

}  // namespace
}  // namespace hanse
