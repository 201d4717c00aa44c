#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "hanse/base/index.hpp"
#include "hanse/protocol/turnout.hpp"
#include "hanse/rules/clock/buffered_events.hpp"
#include "hanse/rules/clock/draw_chances.hpp"
#include "hanse/rules/clock/report.hpp"

namespace hanse {

namespace {

// Hands out tasks by the sampler's draws. Its clients come and go as the events say.
class SampledDispatcher final : public Dispatcher {
 public:
  SampledDispatcher(const AsyncOptions& options, int64_t clients, BufferedWeights weights)
      : clients_(static_cast<double>(clients)),
        buffer_(static_cast<double>(options.arrivals_of_a_version())),
        all_stay_(options.next == NextClient::kSame && options.concurrency == clients),
        shares_(std::move(weights.shares)) {
    if (weights.unbiased && options.next == NextClient::kDraw) chances_.emplace(clients);
  }

  // The sampler that draws until the next call.
  void ask(const DrawClients& sampler) { sampler_ = &sampler; }
  // Null: draws count as they are.
  DrawChances* chances() { return chances_ ? &*chances_ : nullptr; }

  void toggle(std::span<const int64_t> clients) override {
    changes_.insert(changes_.end(), clients.begin(), clients.end());
    if (chances_) chances_->toggle(clients);
  }

  Dispatched draw(int64_t call, int64_t n) override {
    auto [draw, available] = sampler_->dispatch(call, n, std::exchange(changes_, {}));
    const auto size = static_cast<double>(draw.size());
    const auto there = static_cast<double>(available);
    if (chances_) chances_->draw(std::ssize(draw.clients), available);
    // A buffer that is one draw from all clients counts as a round does, to the last bit.
    const bool is_round = size == buffer_ && there == clients_;
    for (std::size_t i = 0; i < draw.size(); ++i) {
      double& weight = draw.weights[i];
      if (all_stay_) {
        weight = clients_ / buffer_;  // that of the one draw would stay for ever
      } else if (!is_round) {
        weight *= size / there * (clients_ / buffer_);
      }
      if (chances_) weight *= chances_->factor(draw.clients[i]);
      if (!shares_.empty()) weight *= shares_[to_index(draw.clients[i])];
    }
    return {draw.clients, draw.weights, draw.probabilities, draw.counts};
  }

 private:
  double clients_, buffer_;
  bool all_stay_;  // all clients are in flight, and begin again
  std::vector<double> shares_;
  std::optional<DrawChances> chances_;
  const DrawClients* sampler_ = nullptr;
  std::vector<int64_t> changes_;  // empty between rounds
};

class BufferedTurnout final : public Turnout {
 public:
  BufferedTurnout(const AsyncOptions& options, double empty_seconds, const Tasks& tasks,
                  OnLine& on_line, BufferedWeights weights)
      : dispatcher_(options, on_line.clients(), std::move(weights)),
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
    for (const BufferedTask& task : version.fallen) turnout.uncounted.push_back(uncounted(task));
    if (ahead_ > 0)
      turnout.upcoming = [this, size = turnout.draw.size()] { return upcoming(size); };
    return turnout;
  }

  double seconds() const override { return seconds_of(events_.now()); }
  void add_columns(Columns& columns) const override { report_.add_columns(columns); }

 private:
  // Those of the next tasks that are certain to be in a version, behind one of this size.
  std::vector<UpcomingTask> upcoming(std::size_t size) const {
    std::vector<UpcomingTask> found;
    for (const BufferedTask& task : events_.in_flight(2 * static_cast<int64_t>(size) + 64)) {
      if (!task.arrives) continue;
      found.push_back({task.client, {.received = task.received, .repeat = task.repeats}});
    }
    return found;
  }

  static UncountedTask uncounted(const BufferedTask& task) {
    return {.client = task.client,
            .state = task.arrives ? TaskState::kDiscarded : TaskState::kLost,
            .span = {task.start, task.known},
            .received = task.received,
            .staleness = task.arrives ? task.staleness : -1};
  }

  static void add(const BufferedTask& task, RoundTurnout& turnout) {
    turnout.draw.clients.push_back(task.client);
    turnout.draw.counts.push_back(task.count);
    turnout.draw.probabilities.push_back(task.probability);
    turnout.draw.weights.push_back(task.weight);
    turnout.times.staleness.push_back(task.staleness);
    turnout.times.durations.push_back(seconds_of(task.known - task.start));
    turnout.spans.push_back({task.start, task.known});
    turnout.tasks.push_back({.received = task.received, .repeat = task.repeats});
  }

  void visit(StateFields& fields) override {
    fields.part("events", events_);
    fields.part("report", report_);
    if (DrawChances* chances = dispatcher_.chances()) fields.part("chances", *chances);
  }

  SampledDispatcher dispatcher_;
  BufferedEvents events_;
  BufferedReport report_;
  int64_t ahead_;  // buffers whose tasks may be trained before
};

}  // namespace

std::unique_ptr<Turnout> make_buffered_turnout(const AsyncOptions& options, double empty_seconds,
                                               const Tasks& tasks, OnLine& on_line,
                                               BufferedWeights weights) {
  return std::make_unique<BufferedTurnout>(options, empty_seconds, tasks, on_line,
                                           std::move(weights));
}

}  // namespace hanse
