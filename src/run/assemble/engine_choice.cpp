#include "hanse/run/engine_choice.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/log.hpp"
#include "hanse/client/cohort_training.hpp"
#include "hanse/comm/agreement.hpp"
#include "hanse/comm/bcast_list.hpp"
#include "hanse/config.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/attacks.hpp"
#include "hanse/kinds/experts.hpp"
#include "hanse/kinds/updates.hpp"
#include "hanse/model/part_model.hpp"
#include "hanse/model/torch_library.hpp"
#include "hanse/run/assembly.hpp"
#include "hanse/run/catalog.hpp"
#include "protocols.hpp"
#include "simulation.hpp"

namespace hanse {

namespace {

[[noreturn]] void refuse(const Refusal& refusal) {
  throw InvalidArgument(refusal.what, refusal.key, refusal.hint + ", or run.device = cpu");
}

bool is_tf32(const Job& job) {
  return job.model.precision == Precision::kTf32 &&
         protocol_kind(job).reading.reads("model.precision");
}

// A simulated run trains nobody.
bool may_have_gpus(const Job& job) {
  if (is_simulated(job)) return false;
  return job.run.device == RunDevice::kCuda || (job.run.device == RunDevice::kAuto && kHasCuda);
}

// Nothing else will do.
bool needs_gpus(const Job& job) {
  return job.run.device == RunDevice::kCuda || (job.run.device == RunDevice::kAuto && is_tf32(job));
}

bool uses_nccl(const Job& job, const RankGpu& device, const Communicator& comm) {
  if (job.comm.devices != DeviceLinks::kAuto) return job.comm.devices == DeviceLinks::kNccl;
  return !device.shared && comm.size() > 1;
}

// The samples take one in so many parts of a GPU's memory.
constexpr int64_t kSampleShare = 4;

// A cohort's clients side by side, where the job does not say. 25 clients of a LeNet fill an H100.
constexpr int64_t kMostSideBySide = 32;
constexpr int64_t kRowBytes = int64_t{8} << 30;  // for all rows of its clients

// "12 clients side by side on NVIDIA H100 (2 ranks), linked by NCCL"
void tell_of_gpu(const Job& job, const std::string& gpu, const RankGpu& device,
                 const std::string& one_by_one, int64_t clients, const Communicator& comm) {
  const bool is_alone = comm.size() == 1;
  const std::string where =
      fmt::format("{} ({})", gpu, is_alone ? "1 rank" : fmt::format("{} ranks", comm.size()));
  if (!one_by_one.empty()) {
    return notice(
        fmt::format("clients are trained one after the other on {}: {}", where, one_by_one));
  }
  notice(fmt::format("{} clients side by side on {}{}", clients, where,
                     is_alone                       ? ""
                     : uses_nccl(job, device, comm) ? ", linked by NCCL"
                                                    : ", linked by the hosts' memory"));
}

RankGpu claim_gpu(const Job& job, const std::string& one_by_one, int64_t clients,
                  Communicator& comm, Communicator& host) {
  int64_t mine = -1;
  Gpu gpu;
  agree_on(comm, [&] {
    const std::vector<Gpu> gpus = torch_library().gpu.all();
    if (gpus.empty()) return;
    mine = host.rank() % std::ssize(gpus);
    gpu = gpus[static_cast<std::size_t>(mine)];
  });
  std::vector<std::string> identities;  // of every rank of the host, in their order
  for (int rank = 0; rank < host.size(); ++rank) {
    identities.push_back(gpu.identity);
    bcast_list(host, identities.back(), rank);
  }
  int64_t most = 0;
  agree_on(comm, [&] { most = ranks_on_one_gpu(identities, job.run.ranks_per_gpu); });
  require_same(comm, "GPUs", gpu.name, "their results differ in the last bits; use one kind");
  RankGpu device{.shared = comm.allreduce_one(most, ReduceOp::kMax) > 1};
  agree_on(comm, [&] {
    device.name = torch_library().gpu.use(mine, job.model.precision);
    device.kind = fmt::format("{}, CUDA {}, LibTorch {}", gpu.name,
                              torch_library().gpu.cuda_version(), torch_library().version());
    device.sample_bytes =
        std::min(gpu.memory_bytes / kSampleShare, torch_library().gpu.free_bytes() / 2) / most;
  });
  tell_of_gpu(job, gpu.name, device, one_by_one, clients, comm);
  return device;
}

// What a core does while an H100 makes a step of a small cohort, some 0.03 ms: a step of 5 MFLOP,
// an mlp's of 8 hidden units, took a third of the core's time there (jobs/measured.md, "A round on
// a GPU"), and one of 3 MFLOP, bench-lr's, more than a fast core's.
constexpr double kLeastGpuFlops = 4e6;

double cohort_flops(const StepCost& work) {
  return work.flops * static_cast<double>(work.batch * work.clients);
}

// Says how many ranks have nobody to train.
void tell_of_idle_ranks(int64_t participants, int64_t clients, Communicator& comm) {
  const int64_t cohorts = (participants + clients - 1) / clients;
  if (cohorts >= comm.size()) return;
  notice(
      fmt::format("{} of {} ranks train nobody: {} participants are {} {} of {}; "
                  "run.device-cohort = {} gives each rank some",
                  comm.size() - cohorts, comm.size(), participants, cohorts,
                  cohorts == 1 ? "cohort" : "cohorts", clients,
                  std::max<int64_t>(participants / comm.size(), 1)));
}

}  // namespace

void check_engine(const Job& job) {
  if (is_tf32(job) && !may_have_gpus(job)) {
    throw InvalidArgument("tf32 is a format of GPUs, and this run has none", "model.precision",
                          "use float32 or bfloat16, or run.device = cuda");
  }
  if (!needs_gpus(job)) return;
  if (!kHasCuda) throw NotCompiled("CUDA", "use run.device=cpu, or build with -DHANSE_CUDA=ON");
  if (const auto refusal = kind_off_gpus(job)) refuse(*refusal);
}

std::optional<Refusal> kind_off_gpus(const Job& job) {
  Job chosen = job;
  for (const KindFamily& family : catalog()) {
    const std::string& kind = family.choice(chosen);
    const bool counts = protocol_kind(job).reading.reads(family.key);
    if (!counts || !family.find(kind).cpus_alone) continue;
    return Refusal{kind + " is not trained on GPUs", family.key,
                   fmt::format("use another, hanse list {} marks them", family.name)};
  }
  return std::nullopt;
}

std::string why_one_by_one_on_gpus(const Job& job, const std::optional<AggregatorNeeds>& rule) {
  const ProtocolKind& protocol = protocol_kind(job);
  if (protocol.traits.has_rounds) {
    const std::string why = why_one_by_one(facts_of(job, rule));
    if (!why.empty()) return why;
  } else if (job.online.gamma != NodeEstimate::kSgd) {
    return "ridge regressions are fitted in the hosts' memory (online.gamma)";
  } else if (exchanges_gradients(job.online)) {
    return "gradients of all nodes' models are mixed in the hosts' memory (online.kind)";
  }
  return "";
}

std::string one_by_one_text(const Job& job) {
  if (!may_have_gpus(job) || kind_off_gpus(job)) return "";
  const auto bound = protocol_kind(job).bound;
  const Job trained = bound ? bound_options(job, *bound) : job;
  const std::string why = why_one_by_one_on_gpus(trained, std::nullopt);
  return why.empty() ? "" : "clients are trained one after the other on the GPU: " + why;
}

int64_t ranks_on_one_gpu(std::span<const std::string> gpus, int64_t ranks_per_gpu) {
  int64_t most = 0;
  for (const std::string& gpu : gpus) {
    if (gpu.empty()) {
      throw InvalidArgument("this host has no GPU that CUDA can use", "run.device",
                            "nvidia-smi lists them; run.device = cpu needs none (and has no tf32)");
    }
    most = std::max(most, static_cast<int64_t>(std::count(gpus.begin(), gpus.end(), gpu)));
  }
  if (most <= ranks_per_gpu) return most;
  throw InvalidArgument(fmt::format("{} ranks have the same GPU, and {} may", most, ranks_per_gpu),
                        "run.ranks-per-gpu",
                        "start as many ranks as the host has GPUs, or allow more");
}

int64_t side_by_side(const Job& job, int64_t participants, int64_t n_params) {
  const int64_t all = std::max<int64_t>(participants, 1);
  const int64_t moments = std::max<int64_t>(moments_of(job.client), 1);
  const int64_t rows = 2 + moments + (job.client.accumulate > 1 ? 1 : 0);  // and gradient, and sum
  const int64_t floats = kRowBytes / int64_t{sizeof(float)};
  const int64_t fitting = floats / (rows * std::max<int64_t>(n_params, 1));
  const int64_t most = job.run.device_cohort > 0 ? job.run.device_cohort
                                                 : std::clamp<int64_t>(fitting, 1, kMostSideBySide);
  const int64_t cohorts = (all + most - 1) / most;
  return (all + cohorts - 1) / cohorts;
}

KernelStarts kernel_starts(const Job& job) {
  return {.recorded = job.run.device_graphs == DeviceGraphs::kAuto,
          .streams = job.run.device_streams};
}

bool is_worth_a_gpu(const StepCost& work) {
  return work.flops == 0 || work.batch == 0 || cohort_flops(work) >= kLeastGpuFlops;
}

Engine choose_engine(const Job& job, const std::string& one_by_one, StepCost work,
                     Communicator& comm, Communicator& host, const RankGpu* given) {
  if (given != nullptr) return {*given, one_by_one};
  if (!may_have_gpus(job)) return {};
  if (!one_by_one.empty()) work.clients = 1;
  if (!needs_gpus(job) && !is_worth_a_gpu(work)) {
    notice(fmt::format(
        "clients are trained on the CPU: a step of {} has {:.2g} MFLOP, too few for a GPU; "
        "run.device = cuda trains them there",
        work.clients == 1 ? "one client" : fmt::format("{} clients", work.clients),
        1e-6 * cohort_flops(work)));
    return {};
  }
  try {
    return {claim_gpu(job, one_by_one, work.clients, comm, host), one_by_one};
  } catch (const AgreedError& error) {
    if (needs_gpus(job)) throw;
    notice(fmt::format("clients are trained on the CPU: {}", error.what()));
    return {};
  }
}

void make_on_device(const Job& job, RankGpu& device, Communicator& comm,
                    const std::function<void()>& make) {
  try {
    agree_on(comm, make);
  } catch (const AgreedError& error) {
    if (needs_gpus(job)) throw;
    notice(fmt::format("clients are trained on the CPU: {}", error.what()));
    device = {};
  }
}

void move_model(const Job& job, Engine& engine, Communicator& comm, Assembly& assembly) {
  if (!engine.on_gpu() || engine.has_cohorts()) return;
  const Federation& federation = assembly.federation;
  std::unique_ptr<Model> moved;
  make_on_device(job, engine.device, comm, [&] {
    moved =
        torch_library().make_device_model(assembly.network(), job.model, federation.sample_shape(),
                                          federation.label_form(), engine.device.name);
  });
  if (engine.on_gpu()) assembly.host_network = assembly.replace_network(std::move(moved));
}

std::shared_ptr<FrozenPart> move_frozen_part(const Job& job, const Engine& engine,
                                             const FrozenPart& host, Communicator& comm,
                                             const Assembly& assembly) {
  std::shared_ptr<FrozenPart> moved;
  agree_on(comm, [&] {
    moved = torch_library().make_device_frozen_part(
        host, *assembly.part, job.model, assembly.federation.sample_shape(),
        assembly.federation.label_form(), engine.device.name);
  });
  return moved;
}

RunnerPtr make_runner(const Job& job, Engine& engine, const FederatedSettings& settings,
                      const RunnerParts& parts) {
  RankGpu& device = engine.device;
  std::unique_ptr<CohortTraining> cohorts, tuning;
  if (engine.has_cohorts()) {
    const int64_t participants = settings.max_participants;
    const int64_t clients = side_by_side(job, participants, parts.model.n_params());
    tell_of_idle_ranks(participants, clients, parts.comm);
    const auto room = [&](const ClientOptions& options, int64_t places, int64_t bytes) {
      return std::make_unique<CohortTraining>(options, parts.federation, job.model, device.name,
                                              places, bytes, kernel_starts(job), parts.part,
                                              parts.frozen);
    };
    make_on_device(job, device, parts.comm, [&] {
      ClientOptions options = instructed_clients(job);
      options.poison = poison_of(job, parts.federation.clients());
      cohorts = room(options, clients, device.sample_bytes);
      if (parts.tuner != nullptr) tuning = room(tuner_options(job), 1, 0);
    });
  }
  if (!engine.has_cohorts()) return make_host_runner(parts, settings);
  if (sums_on_host(parts)) notice("updates go to the hosts' memory, where they are summed");
  auto devices = uses_nccl(job, device, parts.comm)
                     ? torch_library().make_nccl_communicator(parts.comm, device.name)
                     : torch_library().make_staged_communicator(parts.comm);
  return make_cohort_runner(parts, settings, std::move(cohorts), std::move(devices),
                            std::move(tuning));
}

}  // namespace hanse
