#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "hanse/base/index.hpp"
#include "hanse/protocol/turnout.hpp"
#include "hanse/rules/clock/buffered_events.hpp"
#include "hanse/rules/clock/report.hpp"

namespace hanse {

namespace {

// Hands out tasks by the sampler's draws. Its clients come and go as the events say.
class SampledDispatcher final : public Dispatcher {
 public:
  SampledDispatcher(int64_t clients, int64_t buffer, std::vector<double> shares)
      : clients_(static_cast<double>(clients)),
        buffer_(static_cast<double>(buffer)),
        shares_(std::move(shares)) {}

  // The sampler that draws until the next call.
  void ask(const DrawClients& sampler) { sampler_ = &sampler; }

  void toggle(std::span<const int64_t> clients) override {
    changes_.insert(changes_.end(), clients.begin(), clients.end());
  }

  Dispatched draw(int64_t call, int64_t n) override {
    auto [draw, available] = sampler_->dispatch(call, n, std::exchange(changes_, {}));
    const auto size = static_cast<double>(draw.size());
    const auto there = static_cast<double>(available);
    // A buffer that is one draw from all clients counts as a round does, to the last bit.
    const bool is_round = size == buffer_ && there == clients_;
    for (std::size_t i = 0; i < draw.size(); ++i) {
      if (!is_round) draw.weights[i] *= size / there * (clients_ / buffer_);
      if (!shares_.empty()) draw.weights[i] *= shares_[to_index(draw.clients[i])];
    }
    return {draw.clients, draw.weights, draw.probabilities, draw.counts};
  }

 private:
  double clients_, buffer_;
  std::vector<double> shares_;
  const DrawClients* sampler_ = nullptr;
  std::vector<int64_t> changes_;  // empty between rounds
};

class BufferedTurnout final : public Turnout {
 public:
  BufferedTurnout(const AsyncOptions& options, double empty_seconds, const Tasks& tasks,
                  OnLine& on_line, std::vector<double> shares)
      : dispatcher_(on_line.clients(), options.arrivals_of_a_version(), std::move(shares)),
        events_(options, empty_seconds, tasks, on_line, dispatcher_),
        report_(on_line.clients()),
        ahead_(options.max_staleness == 0 ? options.ahead : 0) {}

  RoundTurnout next(int64_t round, const DrawClients& draw) override {
    dispatcher_.ask(draw);
    const BufferedVersion& version = events_.next();
    const std::map<int64_t, int64_t> needed = events_.versions_needed();
    report_.add(version, std::ssize(needed));
    std::vector<BufferedTask> members = version.members;
    std::ranges::sort(members, {},
                      [](const BufferedTask& task) { return std::tuple(task.call, task.place); });
    RoundTurnout turnout;
    for (const BufferedTask& task : members) add(task, turnout);
    for (const auto& [number, tasks] : needed) {
      if (number < round) turnout.kept.push_back(number);
    }
    keep_received(turnout);
    if (ahead_ > 0) add_upcoming(turnout);
    return turnout;
  }

  double seconds() const override { return seconds_of(events_.now()); }
  void add_columns(Columns& columns) const override { report_.add_columns(columns); }

 private:
  // Those that are certain to be in a version, as far as they may be worth a look.
  void add_upcoming(RoundTurnout& turnout) const {
    const std::size_t most = 2 * turnout.draw.size() + 64;
    const auto add = [&](const BufferedTask& task) {
      if (!task.arrives || turnout.upcoming.size() == most) return;
      turnout.upcoming.push_back(
          {task.client, {.received = task.received, .repeat = task.repeats}});
    };
    for (const BufferedTask& task : events_.buffered()) add(task);
    for (const BufferedTask& task : events_.in_flight()) add(task);
  }

  static void add(const BufferedTask& task, RoundTurnout& turnout) {
    turnout.draw.clients.push_back(task.client);
    turnout.draw.counts.push_back(task.count);
    turnout.draw.probabilities.push_back(task.probability);
    turnout.draw.weights.push_back(task.weight);
    turnout.times.staleness.push_back(task.staleness);
    turnout.times.durations.push_back(seconds_of(task.known - task.start));
    turnout.tasks.push_back({.received = task.received, .repeat = task.repeats});
  }

  void visit(StateFields& fields) override {
    fields.part("events", events_);
    fields.part("report", report_);
  }

  SampledDispatcher dispatcher_;
  BufferedEvents events_;
  BufferedReport report_;
  int64_t ahead_;  // buffers whose tasks may be trained before
};

}  // namespace

std::unique_ptr<Turnout> make_buffered_turnout(const AsyncOptions& options, double empty_seconds,
                                               const Tasks& tasks, OnLine& on_line,
                                               std::vector<double> shares) {
  return std::make_unique<BufferedTurnout>(options, empty_seconds, tasks, on_line,
                                           std::move(shares));
}

}  // namespace hanse
