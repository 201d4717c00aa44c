#include "hanse/rules/clock/round_clock.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "hanse/base/index.hpp"
#include "hanse/base/stop_request.hpp"
#include "hanse/rules/clock/report.hpp"
#include "idle_clients.hpp"
#include "task_fields.hpp"

namespace hanse {

// A drawn client's task.
struct RoundClock::Attempt {
  int64_t client = 0;
  int64_t place = 0;  // in the draw
  Fate fate;
  int64_t steps = 0;  // 0: all of the task
  bool idle = false;  // not one step fits before the deadline: it does not start
  bool counts = false;

  bool late() const { return fate.arrives && !counts; }
  bool in_time(Ticks end) const { return fate.arrives && fate.known <= end && !idle; }
};

namespace {

// The ceil(p n)-th smallest of n >= 1 values.
template <class Value>
Value quantile(std::vector<Value> values, double p) {
  const int64_t rank = ceil_of_product(p * static_cast<double>(values.size()));
  const auto at = values.begin() + std::max<int64_t>(rank, 1) - 1;
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

Ticks deadline_of(const DeadlineOptions& options, const Tasks& tasks, int64_t clients) {
  if (options.quantile == 0) return ticks_of(options.seconds);
  return quantile(tasks.times().of_all(clients), options.quantile);
}

// Seconds for which the client of an attempt computes in vain.
double wasted_seconds(Ticks start, const Fate& fate, bool idle) {
  if (idle) return 0;
  const Ticks done = fate.known - start - fate.phases.down;
  return seconds_of(std::clamp<Ticks>(done, 0, fate.phases.compute));
}

}  // namespace

RoundClock::RoundClock(const ClockOptions& options, int64_t per_round, const Tasks& tasks,
                       OnLine& on_line)
    : options_(options),
      per_round_(per_round),
      tasks_(tasks),
      on_line_(on_line),
      idle_(std::make_unique<IdleClients>(on_line)),
      counted_(to_index(on_line.clients())) {
  if (options_.has_deadline()) {
    deadline_ = deadline_of(options_.deadline, tasks_, on_line.clients());
  }
  count({});
}

RoundClock::~RoundClock() = default;

std::vector<int64_t> RoundClock::changes() { return idle_->changes(now_); }

int64_t RoundClock::to_draw(int64_t available) const {
  return std::min(available, options_.draws(per_round_));
}

std::vector<RoundClock::Attempt> RoundClock::attempts_of(int64_t round,
                                                         std::span<const int64_t> drawn) const {
  std::vector<Attempt> attempts;
  attempts.reserve(drawn.size());
  for (const int64_t client : drawn) {
    leave_if_stopped();
    Attempt attempt;
    attempt.client = client;
    attempt.place = std::ssize(attempts);
    const int64_t all = tasks_.times().steps(client);
    if (options_.makes_partial()) {
      const int64_t most = tasks_.steps_within(client, round, deadline_);
      attempt.idle = most == 0;
      attempt.steps = most < all ? most : 0;
    }
    attempt.fate = tasks_.fate(client, round, now_, attempt.steps > 0 ? attempt.steps : all);
    if (attempt.idle) attempt.fate.arrives = true;  // it is late, whatever would become of it
    attempts.push_back(attempt);
  }
  return attempts;
}

Ticks RoundClock::end_of(std::span<const Attempt> attempts) const {
  Ticks last = now_;
  std::vector<std::pair<Ticks, int64_t>> arrivals;  // when, client
  for (const Attempt& attempt : attempts) {
    last = std::max(last, attempt.fate.known);
    if (attempt.fate.arrives) arrivals.emplace_back(attempt.fate.known, attempt.client);
  }
  if (options_.has_deadline()) return std::min(later(now_, deadline_), last);
  if (options_.round == RoundEnd::kAll || std::ssize(arrivals) < per_round_) return last;
  const auto at = arrivals.begin() + per_round_ - 1;
  std::nth_element(arrivals.begin(), at, arrivals.end());
  return at->first;
}

// Where nobody is on line the round ends when somebody comes: a look that is late may find nobody.
Ticks RoundClock::end_of_empty() const {
  const Ticks end = later(now_, ticks_of(options_.empty_seconds));
  return on_line_.on_line() == 0 ? std::min(end, on_line_.next_of_all()) : end;
}

const RoundTimes& RoundClock::play(int64_t round, std::span<const int64_t> drawn,
                                   std::span<const double> weights) {
  last_ = {.round = round, .start = now_};
  std::vector<Attempt> attempts = attempts_of(round, drawn);
  last_.end = drawn.empty() ? end_of_empty() : end_of(attempts);
  choose_counted(attempts);
  take_arrived(round);
  carry(round, attempts, weights);
  now_ = last_.end;
  const bool nobody = drawn.empty() && last_.carried.empty();
  if (!nobody && options_.server_seconds > 0) {
    now_ = later(now_, ticks_of(options_.server_seconds));
  }
  count(attempts);
  return last_;
}

void RoundClock::choose_counted(std::span<Attempt> attempts) const {
  std::vector<Attempt*> in_time;
  in_time.reserve(attempts.size());
  for (Attempt& attempt : attempts) {
    if (attempt.in_time(last_.end)) in_time.push_back(&attempt);
  }
  if (options_.round == RoundEnd::kFirst && std::ssize(in_time) > per_round_) {
    const auto last = in_time.begin() + per_round_;
    std::nth_element(in_time.begin(), last, in_time.end(), [](const Attempt* a, const Attempt* b) {
      return std::tie(a->fate.known, a->client) < std::tie(b->fate.known, b->client);
    });
    in_time.erase(last, in_time.end());
  }
  for (Attempt* attempt : in_time) attempt->counts = true;
}

std::vector<int64_t> RoundClock::received_in_flight() const {
  std::set<int64_t> received;
  for (const CarriedTask& task : in_flight_) received.insert(task.round - 1);
  return {received.begin(), received.end()};
}

void RoundClock::take_arrived(int64_t round) {
  std::erase_if(in_flight_, [&](CarriedTask& task) {
    if (task.known > last_.end) return false;
    idle_->set_busy(task.client, false);
    if (!task.arrives) return true;
    task.staleness = round - task.round;
    last_.carried.push_back(task);
    return true;
  });
}

void RoundClock::carry(int64_t round, std::span<const Attempt> attempts,
                       std::span<const double> weights) {
  for (const Attempt& attempt : attempts) {
    if (!options_.carries() || attempt.fate.known <= last_.end) continue;
    idle_->set_busy(attempt.client, true);
    in_flight_.push_back({.client = attempt.client,
                          .round = round,
                          .place = attempt.place,
                          .weight = weights.empty() ? 1 : weights[to_index(attempt.place)],
                          .start = last_.start,
                          .known = attempt.fate.known,
                          .arrives = attempt.fate.arrives});
  }
}

void RoundClock::count(std::span<const Attempt> attempts) {
  int64_t arrived = std::ssize(last_.carried), wasted_bytes = 0;
  double wasted = 0;
  std::vector<double> durations;
  durations.reserve(attempts.size());
  last_.known.reserve(attempts.size());
  const RowBytes bytes = tasks_.times().bytes();
  for (const Attempt& attempt : attempts) {
    last_.known.push_back(attempt.fate.known);
    if (attempt.in_time(last_.end)) ++arrived;
    if (attempt.fate.arrives) durations.push_back(seconds_of(attempt.fate.known - last_.start));
    if (attempt.counts) {
      last_.counted.push_back(attempt.place);
      last_.steps.push_back(attempt.steps);
      ++counted_[to_index(attempt.client)];
      continue;
    }
    auto& places = attempt.late() ? last_.late : last_.lost;
    places.push_back(attempt.place);
    if (attempt.late() && options_.carries()) continue;
    wasted += wasted_seconds(last_.start, attempt.fate, attempt.idle);
    wasted_bytes += bytes.down + (attempt.late() && !attempt.idle ? bytes.up : 0);
  }
  for (const CarriedTask& task : last_.carried) ++counted_[to_index(task.client)];
  const bool nobody = durations.empty();
  const auto number = [](int64_t n) { return static_cast<double>(n); };
  numbers_ = {seconds_of(now_),
              seconds_of(now_ - last_.start),
              number(on_line_.on_line()),
              number(std::ssize(attempts)),
              number(arrived),
              number(std::ssize(last_.counted) + std::ssize(last_.carried)),
              number(std::ssize(last_.late)),
              number(std::ssize(last_.lost)),
              wasted,
              number(wasted_bytes),
              nobody ? std::nan("") : quantile(durations, 0.5),
              nobody ? std::nan("") : *std::ranges::max_element(durations)};
}

void RoundClock::add_columns(Columns& columns, double unreachable_share) const {
  columns.add_to_rounds([this] {
    constexpr const char* kNames[] = {"virtual_seconds",
                                      "round_virtual_seconds",
                                      "on_line",
                                      "drawn",
                                      "arrived",
                                      "counted",
                                      "late",
                                      "lost",
                                      "wasted_client_seconds",
                                      "wasted_bytes",
                                      "duration_p50",
                                      "duration_max"};
    Metrics all;
    all.reserve(numbers_.size());
    for (std::size_t i = 0; i < numbers_.size(); ++i) all.emplace_back(kNames[i], numbers_[i]);
    return all;
  });
  columns.add_to_clients([this](int64_t client) {
    const bool trains = client < std::ssize(counted_);
    return Metrics{{"counted", trains ? static_cast<double>(counted_[to_index(client)]) : 0}};
  });
  columns.add_to_summary([this, unreachable_share] {
    Metrics all = participation_metrics(counted_);
    all.emplace_back("unreachable_share", unreachable_share);
    return all;
  });
}

void RoundClock::visit(StateFields& fields) {
  fields.one("now", now_);
  fields.part("on_line", on_line_);
  fields.fixed("counted", counted_);
  visit_tasks(fields, "in_flight", in_flight_);
  if (!fields.loads()) return;
  *idle_ = IdleClients(on_line_);
  for (const CarriedTask& task : in_flight_) idle_->set_busy(task.client, true);
}

}  // namespace hanse
