#include "bounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/client/round_steps.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/samplers.hpp"

namespace hanse {

namespace {

void pool(Job& job, const Federation& federation) {
  if (federation.samples() > std::numeric_limits<int32_t>::max()) {
    throw InvalidArgument(fmt::format("{} samples are too many to pool", federation.samples()),
                          "run.protocol");
  }
  const int64_t clients = federation.clients();
  const int64_t participants = make_sampler(job.sampler, clients, {})->per_round();
  double samples = 0;  // that all clients process in a round
  for (int64_t c = 0; c < clients; ++c) {
    samples += static_cast<double>(samples_processed(job.client, federation.train(c).size()));
  }
  const int64_t all = federation.train_samples();
  const int64_t batch = job.client.batch > 0 ? std::min(job.client.batch, all) : all;
  const double share = static_cast<double>(participants) / static_cast<double>(clients);
  job.client.steps =
      std::max<int64_t>(1, std::llround(share * samples / static_cast<double>(batch)));
  job.client.pooled = true;
  job.sampler.kind = "full";
  job.sampler.availability = "always";
}

}  // namespace

Job bound_options(const Job& job, Bound which) {
  Job bound;
  bound.run = job.run;
  bound.model = job.model;
  bound.client = job.client;
  bound.client.kind = "sgd";
  bound.client.personal.clear();
  static_cast<ClusterOptions&>(bound.client) = {};
  bound.client.phases = {};
  bound.client.alternate.clear();
  bound.client.worker_momentum = 0;
  bound.sampler.kind = sampler_traits(job.sampler).everyone ? "full" : "uniform";
  bound.sampler.seed = job.sampler.seed;
  bound.sampler.per_round = job.sampler.per_round;
  bound.sampler.availability = job.sampler.availability;
  bound.server.role = job.server.role;
  bound.comm = job.comm;
  bound.evaluate = job.evaluate;
  bound.client.alone = which == Bound::kLocal;
  return bound;
}

Job bound_job(const Job& job, const Federation& federation, Bound which) {
  Job bound = bound_options(job, which);
  if (which == Bound::kCentralized) pool(bound, federation);
  return bound;
}

}  // namespace hanse
