#include "bounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/samplers.hpp"

namespace hanse {

namespace {

// Mini-batches that make up the samples of a federated round.
int64_t pooled_steps(const ClientOptions& client, const Federation& federation,
                     double participation) {
  double samples = 0;
  for (int64_t c = 0; c < federation.clients(); ++c) {
    samples += static_cast<double>(samples_processed(client, federation.train(c).size()));
  }
  const int64_t all = federation.train_samples();
  const int64_t batch = client.batch > 0 ? std::min(client.batch, all) : all;
  const double steps = participation * samples / static_cast<double>(batch);
  return std::max<int64_t>(1, std::llround(steps));
}

void pool(Job& job, const Federation& federation) {
  if (federation.samples() > std::numeric_limits<int32_t>::max()) {
    throw InvalidArgument(fmt::format("{} samples are too many to pool", federation.samples()),
                          "run.protocol");
  }
  const auto participants =
      static_cast<double>(make_sampler(job.sampler, federation.clients(), {})->per_round());
  job.client.steps = pooled_steps(job.client, federation,
                                  participants / static_cast<double>(federation.clients()));
  job.client.pooled = true;
  job.sampler.kind = "full";
  job.sampler.availability = "always";
}

}  // namespace

Job bound_job(const Job& job, const Federation& federation, Bound which) {
  Job bound;
  bound.run = job.run;
  bound.model = job.model;
  bound.client = job.client;
  bound.client.kind = "sgd";
  bound.client.personal.clear();
  bound.sampler.kind = sampler_traits(job.sampler).everyone ? "full" : "uniform";
  bound.sampler.per_round = job.sampler.per_round;
  bound.sampler.availability = job.sampler.availability;
  bound.server.role = job.server.role;
  bound.comm = job.comm;
  bound.evaluate = job.evaluate;
  if (which == Bound::kLocal) {
    bound.client.alone = true;
  } else {
    pool(bound, federation);
  }
  return bound;
}

}  // namespace hanse
