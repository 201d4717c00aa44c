#include "hanse/run/device.hpp"

#include <algorithm>
#include <exception>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/log.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/comm/require_same.hpp"
#include "hanse/config.hpp"
#include "hanse/model/device.hpp"

namespace hanse {

void check_gpu_job(const Job& job) {
  const auto require = [](bool met, const std::string& what, const std::string& key,
                          const std::string& hint) {
    if (!met) throw InvalidArgument(what, key, hint + ", or run.device = cpu");
  };
  const std::string& update = job.client.kind;
  const std::string& rule = job.aggregator.kind;
  const std::string cannot = " is not trained on GPUs";
  require(job.run.protocol == "federated", fmt::format("a {} run{}", job.run.protocol, cannot),
          "run.protocol", "use federated");
  require(has_cohort(job.model.kind), fmt::format("a {}{}", job.model.kind, cannot), "model.kind",
          "use linear, mlp, cnn-leaf, cnn-cifar or lenet");
  require(update == "sgd" || update == "prox", update + cannot, "client.update", "use sgd or prox");
  require(job.client.personal.empty(), "a model with tensors of each client's own" + cannot,
          "client.personal", "leave it empty");
  require(rule != "dqn-fed" && rule != "propfair", "the client of " + rule + cannot,
          "aggregator.kind", "use another");
  require(job.comm.reduction == "exact", "sums on GPUs are exact", "comm.reduction", "use exact");
  require(job.run.round_seconds == 0, "clients that are trained side by side end together",
          "run.round-seconds", "use 0");
}

int64_t ranks_on_one_gpu(std::span<const std::string> gpus, int64_t ranks_per_gpu) {
  int64_t most = 0;
  for (const std::string& gpu : gpus) {
    if (gpu.empty()) {
      throw InvalidArgument("this host has no GPU that CUDA can use", "run.device",
                            "nvidia-smi lists them; run.device = cpu needs none");
    }
    most = std::max(most, static_cast<int64_t>(std::count(gpus.begin(), gpus.end(), gpu)));
  }
  if (most <= ranks_per_gpu) return most;
  throw InvalidArgument(fmt::format("{} ranks have the same GPU, and {} may", most, ranks_per_gpu),
                        "run.ranks-per-gpu",
                        "start as many ranks as the host has GPUs, or allow more");
}

namespace {

// Of every rank of the host, in their order.
std::vector<std::string> gather_texts(Communicator& host, const std::string& mine) {
  std::vector<std::string> texts;
  for (int rank = 0; rank < host.size(); ++rank) texts.push_back(bcast_text(host, mine, rank));
  return texts;
}

// The samples' part of a GPU's memory is one in so many.
constexpr int64_t kSampleShare = 4;

RankDevice claim_gpu(const Job& job, Communicator& comm, Communicator& host) {
  const int64_t gpus = gpu_count();
  const int64_t mine = gpus > 0 ? host.rank() % gpus : -1;
  std::string identity, kind;
  agree_on(comm, [&] {
    check_gpu_job(job);
    if (mine < 0) return;
    identity = gpu_identity(mine);
    kind = gpu_name(mine);
  });
  const auto identities = gather_texts(host, identity);
  int64_t most = 0;
  agree_on(comm, [&] { most = ranks_on_one_gpu(identities, job.run.ranks_per_gpu); });
  require_same(comm, "GPUs", kind, "their results differ in the last bits; use one kind");
  RankDevice device{.shared = comm.allreduce_one(most, ReduceOp::kMax) > 1};
  agree_on(comm, [&] {
    device.name = use_gpu(mine);
    device.sample_bytes = gpu_memory_bytes(mine) / (kSampleShare * most);
  });
  notice(fmt::format("{} clients side by side on {} ({}), sums through {}", job.run.device_cohort,
                     kind, comm.size() == 1 ? "1 rank" : fmt::format("{} ranks", comm.size()),
                     device.shared || comm.size() == 1 ? "the host's memory" : "NCCL"));
  return device;
}

}  // namespace

RankDevice choose_device(const Job& job, Communicator& comm, Communicator& host) {
  if (job.run.device == "cpu" || (job.run.device == "auto" && !kHasCuda)) return {};
  try {
    return claim_gpu(job, comm, host);
  } catch (const AgreedError& error) {
    if (job.run.device == "cuda") throw;
    notice(fmt::format("clients are trained on the CPU: {}", error.what()));
    return {};
  }
}

std::unique_ptr<CohortTraining> make_cohorts(const Job& job, const Federation& federation,
                                             const RankDevice& device) {
  if (device.name.empty()) return nullptr;
  return std::make_unique<CohortTraining>(job.client, federation, job.model, device.name,
                                          job.run.device_cohort, device.sample_bytes);
}

std::unique_ptr<DeviceCommunicator> make_device_communicator(Communicator& comm,
                                                             const RankDevice& device) {
  if (device.name.empty()) return nullptr;
  if (device.shared || comm.size() == 1) return make_staged_communicator(comm);
  return make_nccl_communicator(comm, device.name);
}

}  // namespace hanse
