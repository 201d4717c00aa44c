#include "hanse/rules/clock/on_line.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "hanse/base/index.hpp"
#include "hanse/base/random.hpp"
#include "hanse/base/stop_request.hpp"

namespace hanse {

Ticks OnLine::next_off(int64_t client, Ticks t) const { return next_change(client, t); }

Ticks OnLine::next_on(int64_t client, Ticks t) const {
  return is_on(client, t) ? t : next_change(client, t);
}

Ticks OnLine::end_of_work(int64_t client, Ticks t, Ticks work) const {
  if (const Cycle again = cycle(client); again.on > 0) {  // behind whole periods it is as now
    const Ticks periods = (work - 1) / again.on;
    t = later(t, multiple(periods, again.period, client), client);
    work -= periods * again.on;
  }
  for (;;) {
    const Ticks off = next_off(client, t);
    const Ticks end = later(t, work, client);
    if (end < off) return end;
    work -= off - t;
    t = next_on(client, off);
    leave_if_stopped();
  }
}

std::vector<int64_t> OnLine::changes(Ticks now) {
  if (always()) return {};
  if (was_on_.empty()) return first_changes(now);
  std::vector<int64_t> changed;
  while (!due_.empty() && due_.top().first <= now) {
    const int64_t client = due_.top().second;
    due_.pop();
    forget(client, now);
    if (const Ticks next = next_change(client, now); next != kNever) due_.emplace(next, client);
    const bool on = is_on(client, now);
    if (on == was_on_[to_index(client)]) continue;  // it came and went
    was_on_[to_index(client)] = on;
    on_line_ += on ? 1 : -1;
    changed.push_back(client);
  }
  std::sort(changed.begin(), changed.end());
  return changed;
}

std::vector<int64_t> OnLine::first_changes(Ticks now) {
  was_on_.assign(to_index(clients_), true);
  std::vector<Change> next_changes;
  std::vector<int64_t> away;
  for (int64_t client = 0; client < clients_; ++client) {
    forget(client, now);
    if (const Ticks next = next_change(client, now); next != kNever) {
      next_changes.emplace_back(next, client);
    }
    if (is_on(client, now)) continue;
    was_on_[to_index(client)] = false;
    away.push_back(client);
  }
  due_ = decltype(due_)(std::greater<>(), std::move(next_changes));
  on_line_ = clients_ - std::ssize(away);
  return away;
}

void OnLine::visit(StateFields& fields) {
  fields.one("on_line", on_line_);
  if (fields.loads()) was_on_.clear();
}

namespace {

class AlwaysOnLine final : public OnLine {
 public:
  using OnLine::OnLine;
  bool is_on(int64_t, Ticks) const override { return true; }
  Ticks next_change(int64_t, Ticks) const override { return kNever; }
  bool always() const override { return true; }
};

class MarkovOnLine final : public OnLine {
 public:
  MarkovOnLine(int64_t clients, double on_s, double off_s, uint64_t seed)
      : OnLine(clients),
        on_s_(on_s),
        off_s_(off_s),
        seed_(seed),
        began_on_(to_index(clients)),
        number_(to_index(clients)),
        end_(to_index(clients)) {
    for (int64_t client = 0; client < clients; ++client) {
      RandomStream stream(seed_, Purpose::kOnOff, 0, static_cast<uint64_t>(client));
      began_on_[to_index(client)] = stream.uniform() < on_s / (on_s + off_s);
      keep(client, following(client, {}));
    }
  }

  bool is_on(int64_t client, Ticks t) const override {
    return is_on(client, interval_at(client, t));
  }
  Ticks next_change(int64_t client, Ticks t) const override { return interval_at(client, t).end; }
  // The interval is carried along: to look for each anew would cost the square of their number.
  Ticks end_of_work(int64_t client, Ticks t, Ticks work) const override {
    Interval interval = interval_at(client, t);
    for (;;) {
      const Ticks end = later(t, work, client);
      if (end < interval.end) return end;
      work -= interval.end - t;
      interval = following(client, interval);
      t = interval.end;
      interval = following(client, interval);
    }
  }

 protected:
  void forget(int64_t client, Ticks now) override { keep(client, interval_at(client, now)); }
  void visit(StateFields& fields) override {
    OnLine::visit(fields);
    fields.fixed("number", number_);
    fields.fixed("end", end_);
  }

 private:
  static constexpr int64_t kIntervalsUnasked = 1024;

  // The number-th time, from 1, that the client stays as it is, until `end`.
  struct Interval {
    int64_t number = 0;
    Ticks end = 0;
  };

  bool is_on(int64_t client, const Interval& interval) const {
    return began_on_[to_index(client)] == (interval.number % 2 == 1);
  }
  Interval following(int64_t client, Interval interval) const {
    ++interval.number;
    RandomStream stream(seed_, Purpose::kOnOff, static_cast<uint64_t>(interval.number),
                        static_cast<uint64_t>(client));
    const double mean_s = is_on(client, interval) ? on_s_ : off_s_;
    const Ticks length = ticks_of(-mean_s * std::log(1 - stream.uniform()), client);
    interval.end = later(interval.end, length, client);
    if (interval.number % kIntervalsUnasked == 0) leave_if_stopped();
    return interval;
  }
  Interval interval_at(int64_t client, Ticks t) const {
    Interval interval{number_[to_index(client)], end_[to_index(client)]};
    while (interval.end <= t) interval = following(client, interval);
    return interval;
  }
  void keep(int64_t client, const Interval& interval) {
    number_[to_index(client)] = interval.number;
    end_[to_index(client)] = interval.end;
  }

  double on_s_, off_s_;
  uint64_t seed_;
  std::vector<bool> began_on_;   // [M]
  std::vector<int64_t> number_;  // [M] of the interval at the time that was asked for last
  std::vector<Ticks> end_;       // [M] of that interval
};

class DiurnalOnLine final : public OnLine {
 public:
  DiurnalOnLine(int64_t clients, double period_s, double share, uint64_t seed)
      : OnLine(clients), period_(ticks_of(period_s)) {
    on_ = std::max<Ticks>(1, std::llrint(share * static_cast<double>(period_)));
    for (int64_t client = 0; client < clients; ++client) {
      RandomStream stream(seed, Purpose::kOnOff, 0, static_cast<uint64_t>(client));
      phases_.push_back(static_cast<Ticks>(stream.uniform() * static_cast<double>(period_)));
    }
  }

  bool is_on(int64_t client, Ticks t) const override { return place(client, t) < on_; }
  Ticks next_change(int64_t client, Ticks t) const override {
    if (on_ >= period_) return kNever;
    const Ticks at = place(client, t);
    return t + (at < on_ ? on_ : period_) - at;
  }

 protected:
  Cycle cycle(int64_t) const override { return {period_, on_}; }

 private:
  Ticks place(int64_t client, Ticks t) const { return (t + phases_[to_index(client)]) % period_; }

  Ticks period_;
  Ticks on_;                   // of each period
  std::vector<Ticks> phases_;  // [M]
};

class PeriodicOnLine final : public OnLine {
 public:
  PeriodicOnLine(int64_t clients, Ticks period, std::span<const OnInterval> intervals)
      : OnLine(clients), period_(period), first_(to_index(clients) + 1) {
    std::vector<OnInterval> sorted(intervals.begin(), intervals.end());
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const OnInterval& a, const OnInterval& b) { return a.client < b.client; });
    int64_t last = -1;
    for (const auto& [client, on, off] : sorted) {
      if (client == last && spans_.back().off == on) {
        spans_.back().off = off;
        continue;
      }
      spans_.push_back({on, off});
      ++first_[to_index(client) + 1];
      last = client;
    }
    for (std::size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
  }

  bool is_on(int64_t client, Ticks t) const override {
    const auto spans = spans_of(client);
    if (spans.empty()) return true;
    const auto span = span_at(spans, t % period_);
    return span != spans.end() && span->on <= t % period_;
  }

  Ticks next_change(int64_t client, Ticks t) const override {
    const auto spans = spans_of(client);
    if (spans.empty() || (spans[0].on == 0 && spans[0].off == period_)) return kNever;
    const Ticks at = t % period_;
    const auto span = span_at(spans, at);
    if (span == spans.end()) return t - at + period_ + spans[0].on;
    if (span->on > at) return t - at + span->on;
    const bool goes_on = span->off == period_ && spans[0].on == 0;  // in the next period
    return t - at + span->off + (goes_on ? spans[0].off : 0);
  }

 protected:
  Cycle cycle(int64_t client) const override {
    Ticks on = 0;
    for (const Span& span : spans_of(client)) on += span.off - span.on;
    return {period_, on};
  }

 private:
  struct Span {
    Ticks on, off;
  };
  std::span<const Span> spans_of(int64_t client) const {
    const std::size_t begin = first_[to_index(client)];
    return std::span(spans_).subspan(begin, first_[to_index(client) + 1] - begin);
  }
  // The first that ends after `at`.
  static std::span<const Span>::iterator span_at(std::span<const Span> spans, Ticks at) {
    return std::upper_bound(spans.begin(), spans.end(), at,
                            [](Ticks t, const Span& span) { return t < span.off; });
  }

  Ticks period_;
  std::vector<std::size_t> first_;  // [M + 1] of each client among the spans
  std::vector<Span> spans_;
};

}  // namespace

std::unique_ptr<OnLine> make_always_on_line(int64_t clients) {
  return std::make_unique<AlwaysOnLine>(clients);
}

std::unique_ptr<OnLine> make_markov_on_line(int64_t clients, double on_s, double off_s,
                                            uint64_t seed) {
  return std::make_unique<MarkovOnLine>(clients, on_s, off_s, seed);
}

std::unique_ptr<OnLine> make_diurnal_on_line(int64_t clients, double period_s, double share,
                                             uint64_t seed) {
  return std::make_unique<DiurnalOnLine>(clients, period_s, share, seed);
}

std::unique_ptr<OnLine> make_periodic_on_line(int64_t clients, Ticks period,
                                              std::span<const OnInterval> intervals) {
  return std::make_unique<PeriodicOnLine>(clients, period, intervals);
}

}  // namespace hanse
