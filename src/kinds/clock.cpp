#include "hanse/kinds/clock.hpp"

#include <filesystem>

#include <fmt/format.h>

#include "families.hpp"
#include "hanse/base/error.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/samplers.hpp"

namespace hanse {

namespace {

const auto clock_key = keys_of<Job>("clock", &Job::clock);
const auto async_key = keys_of<Job>("async", &Job::async);
using Clock = ClockOptions;
using Async = AsyncOptions;

constexpr const char* kDistributions =
    "constant(x), uniform(a, b), lognormal(mu, sigma), halfnormal(min, sd) = min + sd |N|, "
    "exponential(mean) or pareto(alpha, min)";

// A key that a resumed run may change.
template <class Section, class Field, class... Rest>
Keys<Job> may_change(Section Job::*section, const std::string& key, Field field, Rest... rest) {
  return Keys<Job>([=](OptionTable& table, Job& job) {
    table.add(key, (job.*section).*field, rest...).may_change = true;
  });
}

const Keys<Job> kProfileKeys{
    clock_key("seed", &Clock::seed, or_auto(at_least(1)),
              "seed of profiles, jitter, losses and of who is on line; auto: run.seed"),
    clock_key("sample-seconds", &Clock::sample_seconds, above(0),
              "seconds in which a client of speed 1 trains on a sample"),
    clock_key("speed", &Clock::speed,
              fmt::format("factor on clock.sample-seconds, drawn once for each client, large is "
                          "slow: {}",
                          kDistributions)),
    clock_key("size-correlation", &Clock::size_correlation, between(-1, 1),
              "above 0 slow clients have many samples, below 0 few: correlation of the normal "
              "scores by which the drawn factors go to clients; 0: each keeps its own"),
    clock_key("backward-factor", &Clock::backward_factor, above(0),
              "factor on the time of a sample; 3 for files of FedScale, which have the forward "
              "pass"),
    clock_key("down-mbit", &Clock::down,
              "Mbit/s of each client's download: inf, or drawn as clock.speed"),
    clock_key("up-mbit", &Clock::up, "Mbit/s of its upload, likewise"),
    clock_key("latency-ms", &Clock::latency_ms, at_least(0), "milliseconds of a message, each way"),
    clock_key("jitter", &Clock::jitter, between(0, 3),
              "deviation of the logarithm of a task's training time, drawn for each task; its mean "
              "stays"),
    may_change(
        &Job::clock, "clock.path", &Clock::path,
        "csv of a line a client, client,seconds_per_sample,down_bps,up_bps,latency_s, in the "
        "place of the drawn speeds and links; fewer lines than clients: over and over")};

const Keys<Job> kPresenceKeys{
    clock_key("availability", &Clock::availability,
              "when clients are on line: always; markov(on, off), for exponential times of these "
              "mean seconds; diurnal(period, share), seconds and the share of them; file"),
    may_change(&Job::clock, "clock.availability-path", &Clock::availability_path,
               "csv of availability = file: a first line period,SECONDS, then client,on,off in "
               "seconds; who is not named is always on line"),
    clock_key("leave", &Clock::leave,
              "what becomes of work whose client goes off line before it arrives: it is lost, "
              "pauses, or is "
              "finished all the same"),
    clock_key("lost", &Clock::lost, "probability that a client that starts never reports, or file"),
    may_change(&Job::clock, "clock.lost-path", &Clock::lost_path,
               "csv of lost = file: lines client,probability")};

const Keys<Job> kRoundKeys{
    clock_key("round", &Clock::round,
              "when a round ends: with the last of the drawn clients, with the first "
              "sampler.per-round of them, or at a deadline"),
    keys_of<Job>("sampler", &Job::clock)(
        "over-select", &Clock::over_select, between(1, 10),
        "clients that are drawn for each one that shall count (clock.round = first)"),
    clock_key("deadline-seconds", &Clock::deadline,
              "seconds from a round's start to its deadline, or quantile(p): the time in which "
              "this share of all clients is done"),
    clock_key("late", &Clock::late,
              "what becomes of clients that miss the deadline: their work is dropped; they make "
              "the steps that "
              "fit; or it counts in a later round, less by async.staleness"),
    clock_key("empty-seconds", &Clock::empty_seconds, above(0),
              "seconds that a round lasts in which nobody is on line, unless somebody comes before "
              "its end"),
    clock_key("server-seconds", &Clock::server_seconds, at_least(0),
              "seconds of the server at the end of a round"),
    may_change(&Job::clock, "run.virtual-seconds", &Clock::virtual_seconds, at_least(0),
               "virtual time by which the run ends: no round does later; 0: no limit"),
    may_change(
        &Job::clock, "evaluate.every-seconds", &Clock::evaluate_seconds, at_least(0),
        "virtual seconds between evaluations, in the place of evaluate.every; 0: by rounds")};

const Keys<Job> kStalenessKeys{
    async_key("staleness", &Async::staleness,
              "what an update counts that is tau versions old: 1; (1 + tau)^-a; 1 up to b, then "
              "1/(a (tau - b) + 1); 1 up to b, then a"),
    async_key("a", &Async::a, at_least(0), "a of async.staleness; of threshold 1 at most"),
    async_key("b", &Async::b, at_least(0), "b of async.staleness")};

const Keys<Job> kAsyncKeys{
    async_key("concurrency", &Async::concurrency, at_least(1), "tasks in flight"),
    kStalenessKeys,
    async_key("max-staleness", &Async::max_staleness, at_least(0),
              "updates that are older are thrown away; 0: none"),
    async_key("next", &Async::next,
              "who starts when a task ends: a new draw, or the client itself"),
    async_key("open-slots", &Async::open_slots, at_least(1),
              "tasks that must be missing before others start"),
    may_change(&Job::async, "async.ahead", &Async::ahead, between(0, 1),
               "versions ahead of the next one whose tasks ranks may train")};

const Keys<Job> kFedbuffKeys{
    kAsyncKeys, async_key("buffer", &Async::buffer, at_least(1), "updates that make a version"),
    async_key("normalize", &Async::normalize,
              "divide by the number of updates in the buffer, or by the sum of their weights, so "
              "that a version is as large as one of updates that are not old"),
    async_key("balance", &Async::balance,
              "frequency, for async.next = same: a client's share is multiplied by its time over "
              "the harmonic mean of all times, so that fast clients count no more than slow ones; "
              "exact with aggregator.estimator = unbiased where all clients are in flight")};

[[noreturn]] void refuse(const std::string& what, const char* key, const std::string& hint = "") {
  throw InvalidArgument(what, key, hint);
}

void check_files(const Clock& clock) {
  const Clock plain;
  const std::pair<const char*, bool> drawn[] = {
      {"clock.speed", !(clock.speed == plain.speed)},
      {"clock.sample-seconds", clock.sample_seconds != plain.sample_seconds},
      {"clock.size-correlation", clock.size_correlation != 0},
      {"clock.down-mbit", !(clock.down == plain.down)},
      {"clock.up-mbit", !(clock.up == plain.up)},
      {"clock.latency-ms", clock.latency_ms != 0}};
  for (const auto& [key, given] : drawn) {
    if (given && !clock.path.empty()) refuse("the profiles come from clock.path", key);
  }
  const auto both = [](bool by_file, const std::string& path, const char* key,
                       const char* path_key) {
    if (by_file && path.empty()) refuse(fmt::format("{} = file needs a file", key), path_key);
    if (!by_file && !path.empty())
      refuse("a file that nobody reads", path_key, fmt::format("{} = file", key));
  };
  both(clock.availability.kind == OnLineKind::kFile, clock.availability_path, "clock.availability",
       "clock.availability-path");
  both(clock.lost.by_file, clock.lost_path, "clock.lost", "clock.lost-path");
  for (const auto& [key, path] : clock_files(clock)) {
    if (std::filesystem::is_regular_file(path)) continue;
    throw InvalidArgument(missing_text(path), key);
  }
}

void check_staleness(const Async& async) {
  if (async.staleness != StalenessKind::kThreshold || async.a <= 1) return;
  refuse(fmt::format("old updates would count {} times as much as new ones", async.a), "async.a",
         "1 at most, with async.staleness = threshold");
}

void check_virtual(const Job& job) {
  const Clock& clock = job.clock;
  check_files(clock);
  if (clock.carries() || job.async.is_on()) check_staleness(job.async);
  if (clock.late != LateRule::kDrop && clock.round != RoundEnd::kDeadline) {
    refuse(fmt::format("{} is about a deadline", name_of(clock.late)), "clock.late",
           "clock.round = deadline");
  }
}

void check_async(const Job& job) {
  if (job.async.open_slots <= job.async.concurrency) return;
  refuse(
      fmt::format("{} slots can never be open of {}", job.async.open_slots, job.async.concurrency),
      "async.open-slots", "at most async.concurrency");
}

}  // namespace

KindFamily clock_family() {
  return {"clocks",
          "clock.kind",
          "does virtual time pass? Not for protocols other than federated",
          chosen_by<&Job::clock, &Clock::kind>,
          {{"none", "rounds take no virtual time", {}},
           {"virtual",
            "clients take the time of their speeds and links, in whole microseconds",
            {kProfileKeys, kPresenceKeys, kRoundKeys, kStalenessKeys},
            check_virtual}}};
}

KindFamily async_family() {
  return {"asynchrony",
          "async.kind",
          "how arrivals become versions of the model, on the virtual clock",
          chosen_by<&Job::async, &Async::kind>,
          {{"none", "the server steps at the end of each round", {}},
           {"fedbuff", "at every async.buffer arrivals (Nguyen et al. 2022)", kFedbuffKeys,
            check_async},
           {"fedasync",
            "at every arrival, towards the client's model (Xie et al. 2019)",
            {kAsyncKeys, async_key("mixing", &Async::mixing, above_to(0, 1),
                                   "share of the client's model in the new one, at staleness 0")},
            check_async}}};
}

std::vector<std::pair<std::string, std::string>> clock_files(const ClockOptions& options) {
  std::vector<std::pair<std::string, std::string>> files;
  for (const auto& [key, path] : {std::pair{"clock.path", &options.path},
                                  {"clock.availability-path", &options.availability_path},
                                  {"clock.lost-path", &options.lost_path}}) {
    if (!path->empty()) files.emplace_back(key, *path);
  }
  return files;
}

void check_clock(const Job& job, int64_t clients) {
  if (!job.clock.is_on() || !job.async.is_on()) return;
  const int64_t tasks = job.async.concurrency;
  if (tasks > clients) {
    refuse(fmt::format("{} tasks in flight of {} clients", tasks, clients), "async.concurrency",
           "a client has one task at a time");
  }
  if (tasks < clients && sampler_traits(job.sampler).everyone) {
    refuse(fmt::format("{} tasks in flight are not all of {} clients", tasks, clients),
           "sampler.kind", fmt::format("async.concurrency = {}, or another sampler", clients));
  }
}

bool all_drawn_count(const Job& job) {
  const Clock& clock = job.clock;
  return !clock.is_on() || (!job.async.is_on() && clock.round == RoundEnd::kAll &&
                            clock.lost.never() && clock.availability.kind == OnLineKind::kAlways);
}

std::string no_inclusion(const Job& job) {
  const Clock& clock = job.clock;
  if (!clock.is_on() || clock.round != RoundEnd::kFirst) return "only clock.round = first is known";
  if (job.async.is_on()) return "it is about rounds, and async.kind is on";
  if (clock.jitter > 0) return "clock.jitter lets clients overtake one another";
  if (!clock.lost.never()) return "clock.lost loses some of them";
  if (clock.availability.kind != OnLineKind::kAlways || !is_always(job.sampler.availability)) {
    return "not everybody is there";
  }
  const SamplerTraits traits = sampler_traits(job.sampler);
  if (!traits.even || !traits.distinct || traits.everyone || traits.in_rounds) {
    return "only sampler.kind = uniform without replacement is known";
  }
  return "";
}

}  // namespace hanse
