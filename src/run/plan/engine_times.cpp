#include "engine_times.hpp"

#include <algorithm>
#include <cmath>

#include "hanse/client/cohort_training.hpp"
#include "hanse/comm/balance.hpp"
#include "hanse/job/job.hpp"
#include "hanse/run/device_choice.hpp"

namespace hanse {

namespace {

// Reads and writes of the rows [C, P] in a step: by the products of either direction, of the
// gradient, and by the step.
constexpr double kRowPasses = 10;
// Bytes that an update's fold moves for a value, in float64 and int64, one operation at a time.
constexpr double kFoldBytes = 200;

double longer_s(const GpuSpeeds& speeds, double flops, double bytes) {
  return std::max(flops / speeds.flops, bytes / speeds.bytes);
}

// Evaluations go forwards alone, by batches of their own size.
double evaluation_s(const GpuSpeeds& speeds, const CohortShape& cohort, double samples) {
  const double batches = std::ceil(samples / static_cast<double>(CohortTraining::kEvaluationRows));
  const double bytes =
      sizeof(float) * (samples * number(cohort.sample_values) + batches * number(cohort.n_params));
  return batches * kGpuStep_s / 3 + longer_s(speeds, samples * cohort.gradient_flops / 3, bytes);
}

double step_s(const GpuSpeeds& speeds, const CohortShape& cohort) {
  const double samples = number(cohort.clients * cohort.batch);
  const double values = kRowPasses * number(cohort.clients * cohort.n_params) +
                        2 * samples * number(cohort.sample_values);
  return kGpuStep_s + longer_s(speeds, samples * cohort.gradient_flops, sizeof(float) * values);
}

}  // namespace

CohortShape cohort_shape(const Job& job, const Federation& federation, const Model& model,
                         const Workload& workload) {
  std::size_t most = 0;
  for (const auto& round : workload.rounds) most = std::max(most, round.size());
  return {.clients = side_by_side(job, static_cast<int64_t>(most)),
          .batch = largest_batch(job.client, federation),
          .n_params = model.n_params(),
          .sample_values = federation.sample_values(),
          .gradient_flops = model.gradient_flops()};
}

GpuTimes estimate_gpus(const GpuSpeeds& speeds, const CohortShape& cohort, const Workload& workload,
                       const Cluster& planned) {
  GpuTimes times{.step_s = step_s(speeds, cohort)};
  const double fold_s = kFoldBytes * number(cohort.n_params) / speeds.bytes;
  const auto side_by_side = static_cast<std::size_t>(cohort.clients);
  for (const auto& round : workload.rounds) {
    std::vector<double> cohorts;
    for (std::size_t begin = 0; begin < round.size(); begin += side_by_side) {
      double steps = 0, rest_s = 0;
      for (std::size_t i = begin; i < std::min(begin + side_by_side, round.size()); ++i) {
        steps = std::max(steps, round[i].steps);
        rest_s += fold_s + evaluation_s(speeds, cohort, round[i].losses);
      }
      cohorts.push_back(steps * times.step_s + rest_s);
    }
    std::vector<double> loads(static_cast<std::size_t>(planned.ranks));
    const auto gpu_of = balance(cohorts, planned.ranks);
    for (std::size_t i = 0; i < cohorts.size(); ++i) {
      loads[static_cast<std::size_t>(gpu_of[i])] += cohorts[i];
    }
    times.train_s += *std::max_element(loads.begin(), loads.end());
  }
  times.train_s /= number(std::ssize(workload.rounds));
  const double clients = number(std::min(workload.clients, planned.ranks));
  times.evaluation_s = evaluation_s(speeds, cohort, workload.evaluated) / clients;
  return times;
}

}  // namespace hanse
