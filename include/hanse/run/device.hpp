// Where a job's clients are trained: run.device.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "hanse/client/cohort_training.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/comm/device_communicator.hpp"
#include "hanse/job/job.hpp"

namespace hanse {

// Throws InvalidArgument when the job asks for what is not trained on GPUs.
void check_gpu_job(const Job& job);

// The most ranks of a host that have the same GPU, of `gpus`: each rank's, by gpu_identity(),
// empty when it sees none. Throws InvalidArgument then, and when more than `ranks_per_gpu` do.
int64_t ranks_on_one_gpu(std::span<const std::string> gpus, int64_t ranks_per_gpu);

// A rank's part of the GPUs.
struct RankDevice {
  std::string name;          // LibTorch's, "cuda:0"; empty: clients are trained on the CPU
  bool shared = false;       // two ranks, of any host, have the same GPU
  int64_t sample_bytes = 0;  // that samples may take on it: a quarter of its memory, for all ranks
};

// Chooses by run.device: the n-th rank of a host gets the n-th GPU that it sees, and the first
// again behind the last. What is in the way of GPUs is an error under `cuda`, and a notice under
// `auto`. Collective. Throws AgreedError.
RankDevice choose_device(const Job& job, Communicator& comm, Communicator& host);

// Null unless clients are trained on GPUs. NCCL needs a GPU for each rank.
std::unique_ptr<CohortTraining> make_cohorts(const Job& job, const Federation& federation,
                                             const RankDevice& device);
std::unique_ptr<DeviceCommunicator> make_device_communicator(Communicator& comm,
                                                             const RankDevice& device);

}  // namespace hanse
