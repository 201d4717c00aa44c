#include "hanse/client/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "hanse/base/kind.hpp"

namespace hanse {

namespace {

struct ScheduleKind : KindRow<ClientOptions> {
  Schedule::Factor factor;
  bool ends = true;  // stays where it is behind its length
};

double intervals(const StepOptions& options, double t) {
  return t / static_cast<double>(options.lr_decay_every);
}

// From `first` at share 0 to `last` at share 1.
double by_cosine(double first, double last, double share) {
  return last + (first - last) * (1 + std::cos(std::numbers::pi * share)) / 2;
}

// torch.optim.lr_scheduler.OneCycleLR with its defaults.
double one_cycle(const StepOptions&, double t, double length) {
  constexpr double kRise = 0.3, kFirst = 1 / 25.0, kLast = kFirst / 1e4;
  const double top = kRise * length - 1;
  if (t <= top) return by_cosine(kFirst, 1, t / top);
  return by_cosine(1, kLast, (t - top) / (length - 1 - top));
}

const auto key = keys_of<ClientOptions>("client");
const auto schedule_key = keys_of<ClientOptions>("client", &ClientOptions::schedule);

const Keys<ClientOptions> kDecay{
    key("lr-decay", &ClientOptions::lr_decay, above_to(0, 1), "factor on client.lr ..."),
    key("lr-decay-every", &ClientOptions::lr_decay_every, at_least(1),
        "... every so many rounds, or steps")};
const Keys<ClientOptions> kLength =
    schedule_key("schedule-length", &ScheduleOptions::length, or_auto(at_least(1)),
                 "rounds until the schedule's end; auto: run.rounds of the first start. Over the "
                 "steps of a round it is their number");
const Keys<ClientOptions> kEnd{kLength,
                               schedule_key("schedule-end", &ScheduleOptions::end, between(0, 1),
                                            "share of client.lr that is left at the end")};

const std::vector<ScheduleKind> kSchedules{
    {{"constant", "client.lr throughout"}, [](const StepOptions&, double, double) { return 1.0; }},
    {{"step", "falls by client.lr-decay from time to time", kDecay},
     [](const StepOptions& options, double t, double) {
       return std::pow(options.lr_decay, std::floor(intervals(options, t)));
     },
     /*ends=*/false},
    {{"exponential", "falls by client.lr-decay, evenly", kDecay},
     [](const StepOptions& options, double t, double) {
       return std::pow(options.lr_decay, intervals(options, t));
     },
     /*ends=*/false},
    {{"linear", "falls along a line", kEnd},
     [](const StepOptions& options, double t, double length) {
       return 1 + (options.schedule.end - 1) * t / length;
     }},
    {{"cosine", "falls along half a cosine (Loshchilov and Hutter 2017)", kEnd},
     [](const StepOptions& options, double t, double length) {
       return by_cosine(1, options.schedule.end, t / length);
     }},
    {{"one-cycle", "rises to client.lr and falls again (Smith and Topin 2018)", kLength},
     one_cycle}};

}  // namespace

Schedule::Schedule(const StepOptions& options) : options_(options) {
  const ScheduleKind& kind = find_kind(kSchedules, "client.schedule", options.schedule.kind);
  factor_ = kind.factor;
  ends_ = kind.ends;
}

// At place t (from 0) of a schedule of `length` in all.
double Schedule::factor_at(int64_t t, int64_t length) const {
  const int64_t warmup = options_.schedule.warmup;
  if (t < warmup) return static_cast<double>(t + 1) / static_cast<double>(warmup);
  const int64_t behind = std::max<int64_t>(length - warmup, 1);
  const int64_t place = ends_ ? std::min(t - warmup, behind - 1) : t - warmup;
  return factor_(options_, static_cast<double>(place), static_cast<double>(behind));
}

double Schedule::rate(int64_t round) const {
  if (moves_within_rounds()) return options_.lr;
  return options_.lr * factor_at(round - 1, options_.schedule.length);
}

double Schedule::rate(int64_t round, int64_t step, int64_t steps) const {
  if (!moves_within_rounds()) return rate(round);
  return options_.lr * factor_at(step, steps);
}

std::vector<KindRow<ClientOptions>> schedule_kinds() {
  return {kSchedules.begin(), kSchedules.end()};
}

}  // namespace hanse
