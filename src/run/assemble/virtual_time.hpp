// The virtual clock of a federated job, and who turns up by it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hanse/client/local_update.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/clock.hpp"
#include "hanse/protocol/turnout.hpp"
#include "hanse/protocol/update_stage.hpp"

namespace hanse {

struct VirtualTime {
  VirtualClock clock;
  std::unique_ptr<Turnout> turnout;          // null: there is no clock
  std::map<std::string, std::string> files;  // as Assembly's, as `greeting`
  std::vector<std::string> greeting;         // what is odd about it
};

// What the clock must know of a job's rounds.
struct TimedWork {
  const Federation& federation;
  const LocalUpdate& update;
  Stages stages;
  int64_t n_params;   // of the model's row
  int64_t per_round;  // the sampler's, of drawing_job()
};

// The job as its sampler knows it: with the number of clients that a round or a dispatch draws at
// most.
Job drawing_job(const Job& job);

// Updates of a round at most, where the sampler draws `per_round` of `clients`.
int64_t most_updates(const Job& job, int64_t per_round, int64_t clients);

// Do participants differ in the model or the number of steps?
bool is_timed(const Job& job);

// How updates of older models count.
AsyncOptions staleness_options(const Job& job);

// Makes the job's clock, where it has one. `work` must outlive it, but for the stages. Throws
// InvalidArgument.
VirtualTime make_virtual_time(const Job& job, const TimedWork& work);

// Refuses samplers of the user's own that cannot draw one by one. Throws InvalidArgument.
void check_sampler_in_time(const Job& job, const ClientSampler& sampler);

}  // namespace hanse
