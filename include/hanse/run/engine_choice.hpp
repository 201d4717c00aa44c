// Where a job's clients are trained: run.device.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "hanse/comm/communicator.hpp"
#include "hanse/kinds/conflicts.hpp"
#include "hanse/model/cohort.hpp"
#include "hanse/protocol/engines.hpp"

namespace hanse {

struct Job;
class Assembly;
class FrozenPart;

// Without data and objects. Throws NotCompiled when the job asks for GPUs and this build has none,
// and InvalidArgument when its protocol trains nobody on them, or when it has model.precision =
// tf32 and no GPUs.
void check_engine(const Job& job);

// The first chosen kind that GPUs do not train, by its row; empty: there is none.
std::optional<Refusal> kind_off_gpus(const Job& job);

// Why a GPU trains the job's clients, or nodes, one after the other, as why_one_by_one() says it;
// empty: it trains them side by side. `rule`: as in facts_of().
std::string why_one_by_one_on_gpus(const Job& job, const std::optional<AggregatorNeeds>& rule);

// What `hanse check` says of that, where the job may get a GPU; else empty.
std::string one_by_one_text(const Job& job);

// The most ranks of a host that share a GPU. `gpus` has each rank's gpu_identity(), empty when it
// sees none. Throws InvalidArgument then, and when more than `ranks_per_gpu` do.
int64_t ranks_on_one_gpu(std::span<const std::string> gpus, int64_t ranks_per_gpu);

// A rank's part of the GPUs.
struct RankGpu {
  std::string name;  // LibTorch's, "cuda:0"; empty: clients are trained on the CPU
  // Fixes the bits of its results: "NVIDIA H100 80GB HBM3, compute capability 9.0, ..."
  std::string kind = "cpu";
  bool shared = false;  // two ranks, of any host, have the same GPU
  // For samples on it: a quarter of its memory, half of what is free at most, over all its ranks.
  int64_t sample_bytes = 0;
};

// Clients of a cohort: `participants` at most, in as many cohorts of one size as run.device-cohort
// asks for; where that is 0, 32 a cohort at most, of large models as many as have some 8 GiB for
// their rows. It follows from the job alone, which fixes the bits.
int64_t side_by_side(const Job& job, int64_t participants, int64_t n_params);

// What the job says of them.
KernelStarts kernel_starts(const Job& job);

// How the clients of a rank are trained.
struct Engine {
  RankGpu device;
  std::string one_by_one;  // why not side by side on a GPU; empty: they are, or on the CPU

  const std::string& trains_on() const { return device.kind; }
  bool on_gpu() const { return !device.name.empty(); }
  bool has_cohorts() const { return on_gpu() && one_by_one.empty(); }
};

// The cost of a cohort's step: floating-point operations of a sample's gradient, 0: not known;
// samples of a client, 0: all of them; and clients side by side.
struct StepCost {
  double flops;
  int64_t batch;
  int64_t clients;
};

// Does such a step keep a GPU computing longer than waiting?
bool is_worth_a_gpu(const StepCost& work);

// Chooses by run.device: the n-th rank of a host gets the n-th GPU that it sees, and the first
// again behind the last. Obstacles to GPUs are errors under `cuda` and a notice under `auto`, which
// also leaves to the CPU what is not worth a GPU. With model.precision = tf32 `auto` is `cuda`.
// `one_by_one`: as Engine has it; `work.clients` counts without it. `given`: the ranks' device,
// which is taken as it is; null: run.device chooses. Collective. Throws AgreedError.
Engine choose_engine(const Job& job, const std::string& one_by_one, StepCost work,
                     Communicator& comm, Communicator& host, const RankGpu* given);

// Makes what a run needs on the chosen device. A GPU that has no room for it is an error under
// `cuda` (and in tf32); under `auto` it is a notice, and the device is the CPU. Collective. Throws
// AgreedError.
void make_on_device(const Job& job, RankGpu& device, Communicator& comm,
                    const std::function<void()>& make);

// Puts the assembly's model on the device, where it trains one client after the other; nothing on
// CPUs and for cohorts. What refers to the model is made afterwards. Collective. Throws
// AgreedError.
void move_model(const Job& job, Engine& engine, Communicator& comm, Assembly& assembly);

// What computes on the engine's GPU what `host` computes of the part's network (frozen_part.hpp);
// null: GPUs compute that network as a whole. Collective. Throws AgreedError: there is no room.
std::shared_ptr<FrozenPart> move_frozen_part(const Job& job, const Engine& engine,
                                             const FrozenPart& host, Communicator& comm,
                                             const Assembly& assembly);

// The engine's runner; its GPUs talk as comm.devices says. The engine gets the CPU as
// make_on_device() says. Collective. Throws AgreedError.
RunnerPtr make_runner(const Job& job, Engine& engine, const FederatedSettings& settings,
                      const RunnerParts& parts);

}  // namespace hanse
