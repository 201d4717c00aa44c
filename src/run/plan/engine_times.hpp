// How long a round of a federated job would take on GPUs of given speeds. Nothing of it is
// measured: operations and bytes over the numbers given, and launches by the engine's estimate.
#pragma once

#include <span>

#include "hanse/model/model.hpp"
#include "round_times.hpp"

namespace hanse {

// The end of the hint where a job is not for GPUs.
inline constexpr const char* kWithoutGpus = ", or plan without --gpu-tflops";

// What a rank's GPU does in a second.
struct GpuSpeeds {
  double flops = 0;
  double bytes = 0;  // of its memory, read or written
};

// What a step of a cohort is made of.
struct CohortShape {
  int64_t clients = 1;        // side by side
  int64_t batch = 1;          // samples of the largest mini-batch
  int64_t n_params = 0;       // of a model
  int64_t sample_values = 0;  // of a sample
  double gradient_flops = 0;  // of a sample's gradient
};

// Of the planned job's cohorts.
CohortShape cohort_shape(const Job& job, const Federation& federation, const Model& model,
                         const Workload& workload);

struct GpuTimes {
  double step_s = 0;        // of a cohort
  double train_s = 0;       // a round's training, folding and losses on the busiest GPU
  double evaluation_s = 0;  // of the clients, divided among the GPUs
};

// Every rank of `planned` has a GPU, rank 0 too. A step takes as long as its launches and the
// longer of its operations and its bytes; those of activations are left out.
GpuTimes estimate_gpus(const GpuSpeeds& speeds, const CohortShape& cohort, const Workload& workload,
                       const Cluster& planned);

}  // namespace hanse
