#include "virtual_time.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/digest.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/client/round_steps.hpp"
#include "hanse/kinds/conflicts.hpp"
#include "hanse/kinds/samplers.hpp"
#include "hanse/rules/clock/inclusion.hpp"

namespace hanse {

namespace {

bool carries(const Job& job) { return job.clock.is_on() && job.clock.carries(); }

std::vector<int64_t> samples_of(const Federation& federation) {
  std::vector<int64_t> samples;
  for (int64_t c = 0; c < federation.clients(); ++c) samples.push_back(federation.train(c).size());
  return samples;
}

// A task moves the row and the control variate down, and up what clients send.
RowBytes bytes_of(const TimedWork& work) {
  const int64_t control = work.update.control_width();
  const int64_t received = work.update.received_values(work.n_params);
  return {.down = 4 * (received + (work.update.control_returns() ? control : 0)),
          .up = work.stages.update_bytes(work.update.own_values(work.n_params)) +
                4 * (control + work.stages.second_row_width())};
}

ClientWork work_of(const TimedWork& timed) {
  const LocalWork work = timed.update.steps().work();
  const Federation& federation = timed.federation;
  const auto samples = [&federation](int64_t client) { return federation.train(client).size(); };
  return {.steps = [=](int64_t client) { return local_steps(work, samples(client)); },
          .samples = [=](int64_t client,
                         int64_t steps) { return samples_processed(work, samples(client), steps); },
          .bytes = bytes_of(timed)};
}

// Bytes that the server and the plan keep of an update on its way into a version, beside its row.
constexpr double kBytesOfUpdate = 600;

// Is a client's work lost more often than another's?
bool loses_some(const ClockOptions& clock) {
  const bool leaves = clock.availability.kind != OnLineKind::kAlways;
  return clock.lost.by_file || (leaves && clock.leave == LeaveRule::kLose);
}

// How those count that arrive: by who is drawn, or by who can arrive.
CountedWeights counted_weights(const Job& job, const TimedWork& work, VirtualTime& time) {
  const Tasks& tasks = *time.clock.tasks;
  CountedWeights weights{.estimator = job.aggregator.estimator};
  const int64_t clients = work.federation.clients();
  const bool known = no_inclusion(job).empty();
  if (job.clock.round == RoundEnd::kFirst && known) {
    const auto times = tasks.times().of_all(clients);
    weights.inclusion = inclusion_probabilities(times, std::min(work.per_round, clients),
                                                std::min(job.sampler.per_round, clients));
    const Unreachable never = unreachable(weights.inclusion, train_shares(work.federation));
    weights.unreachable_share = never.share;
    if (never.clients > 0) {
      time.greeting.push_back(
          fmt::format("{} of {} clients, with {:.3g} of all samples, are too slow ever to count: "
                      "clock.round = first takes the {} that arrive first of {}",
                      never.clients, clients, never.share, job.sampler.per_round, work.per_round));
    }
  }
  if (weights.estimator == Estimator::kUnbiased &&
      (job.clock.round != RoundEnd::kAll || loses_some(job.clock))) {
    time.greeting.push_back(
        "aggregator.estimator = unbiased holds where who counts does not depend on the client; "
        "arrival weighs by how often each client arrives in time");
  }
  return weights;
}

// What members of buffers count by, beside their draws; says where that is not what one expects.
BufferedWeights buffered_weights(const Job& job, const TimedWork& work, VirtualTime& time) {
  const AsyncOptions& async = job.async;
  const int64_t clients = work.federation.clients();
  const bool same = async.next == NextClient::kSame, all_fly = async.concurrency == clients;
  BufferedWeights weights{.unbiased = job.aggregator.estimator == Estimator::kUnbiased};
  const auto say = [&](const std::string& text) { time.greeting.push_back(text); };
  if (async.balance == BalanceKind::kFrequency) {
    const std::vector<double> ones(to_index(clients), 1.0);
    weights.shares = balanced_by_frequency(ones, time.clock.tasks->times().of_all(clients));
    if (!same) {
      say("async.balance = frequency is for async.next = same: with draw slow clients count more "
          "than their share");
    }
  }
  if (same && !all_fly && !sampler_traits(job.sampler).even) {
    say(
        fmt::format("async.next = same: the {} clients of the first draw train all the time, and "
                    "their weights of it stay",
                    async.concurrency));
  }
  if (!weights.unbiased) return weights;
  if (same && !(all_fly && async.balance == BalanceKind::kFrequency)) {
    say(fmt::format(
        "aggregator.estimator = unbiased does not hold with async.next = same: {}; it does with "
        "async.next = draw",
        all_fly ? "fast clients count more often"
                : fmt::format("{} of {} clients train all the time", async.concurrency, clients)));
  }
  if (loses_some(job.clock) || async.max_staleness > 0) {
    say("aggregator.estimator = unbiased does not make up for work that is lost or thrown away");
  }
  return weights;
}

void require_buffer(int64_t updates) {
  const double bytes = kBytesOfUpdate * static_cast<double>(updates);
  const auto available = static_cast<double>(available_memory());
  if (bytes <= available) return;
  throw InvalidArgument(
      fmt::format("the server's notes on {} updates of a version take {:.3g} GB of memory, and "
                  "there are {:.3g} GB",
                  updates, 1e-9 * bytes, 1e-9 * available),
      "async.buffer", "a smaller one");
}

}  // namespace

Job drawing_job(const Job& job) {
  Job drawing = job;
  if (!job.clock.is_on()) return drawing;
  drawing.sampler.per_round =
      job.async.is_on() ? job.async.concurrency : job.clock.draws(job.sampler.per_round);
  return drawing;
}

int64_t most_updates(const Job& job, int64_t per_round, int64_t clients) {
  if (job.async.is_on()) return job.async.arrivals_of_a_version();
  return carries(job) ? clients : std::min(per_round, clients);
}

bool is_timed(const Job& job) {
  return job.async.is_on() || carries(job) || (job.clock.is_on() && job.clock.makes_partial());
}

// Late updates of synchronous rounds count by their share of all that count.
AsyncOptions staleness_options(const Job& job) {
  AsyncOptions options = job.async;
  if (!options.is_on()) options.normalize = BufferNorm::kWeights;
  return options;
}

VirtualTime make_virtual_time(const Job& job, const TimedWork& work) {
  VirtualTime time;
  if (!job.clock.is_on()) return time;
  check_clock(job, work.federation.clients());
  time.clock =
      make_virtual_clock(job.clock, samples_of(work.federation), work.federation.names().clients,
                         work_of(work), seed_of(job, job.clock.seed));
  time.clock.times->of_all(work.federation.clients());  // who takes for ever is named at the start
  for (const auto& [key, path] : clock_files(job.clock)) {
    time.files[key] = file_digest_hex(path, 0);
  }
  const Tasks& tasks = *time.clock.tasks;
  OnLine& on_line = *time.clock.on_line;
  if (!job.async.is_on()) {
    time.turnout = make_timed_turnout(job.clock, job.sampler.per_round, tasks, on_line,
                                      counted_weights(job, work, time));
    time.turnout->set_limit(job.clock.virtual_seconds);
    return time;
  }
  require_buffer(job.async.arrivals_of_a_version());
  time.turnout = make_buffered_turnout(job.async, job.clock.empty_seconds, tasks, on_line,
                                       buffered_weights(job, work, time));
  time.turnout->set_limit(job.clock.virtual_seconds);
  if (job.async.arrivals_of_a_version() == 1) {
    time.greeting.push_back("a version of one update: the server sees each client's update");
  }
  return time;
}

void check_sampler_in_time(const Job& job, const ClientSampler& sampler) {
  if (!job.async.is_on()) return;
  if (!sampler.draws_any_number()) {
    throw InvalidArgument(
        "the library is older than asynchronous draws of few clients, and is not told how many",
        "sampler.path", "compile it with this program's include/hanse/plugin.h: random->asked");
  }
  JobFacts facts = facts_of(job);
  facts.sampler.compares = sampler.needs_candidates();
  require_no_conflict(facts);
}

}  // namespace hanse
