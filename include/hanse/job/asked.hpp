// A job's requests to evaluations.
#pragma once

#include "hanse/evaluation/asked_metrics.hpp"
#include "hanse/job/job.hpp"

namespace hanse {

// Throws InvalidArgument: an unknown metric.
inline AskedMetrics asked_of(const Job& job) {
  AskedMetrics asked = asked_metrics(job.evaluate.metrics, job.evaluate.on);
  asked.clients = job.evaluate.clients;
  asked.sample_table = job.evaluate.scores;
  asked.seed = static_cast<uint64_t>(job.run.seed);
  return asked;
}

}  // namespace hanse
