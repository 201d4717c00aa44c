#include "hanse/rules/clock/buffered_events.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/stop_request.hpp"
#include "idle_clients.hpp"
#include "task_fields.hpp"
#include "tasks_in_flight.hpp"

namespace hanse {

namespace {

// After so many draws of nobody, or so many tasks in a row that never arrive, the run is refused.
constexpr int64_t kMostEmpty = 1'000'000;
constexpr int64_t kMostBarren = 1'000'000;

}  // namespace

class BufferedEvents::Play {
 public:
  Play(const AsyncOptions& options, double empty_seconds, const Tasks& tasks, OnLine& on_line,
       Dispatcher& dispatcher)
      : options_(options),
        empty_(ticks_of(empty_seconds)),
        tasks_(tasks),
        on_line_(on_line),
        dispatcher_(dispatcher),
        idle_(on_line),
        of_clients_(to_index(on_line.clients())) {}

  const BufferedVersion& next() {
    for (;;) {
      leave_if_stopped();
      while (!in_flight_.empty() && in_flight_.first().known == now_) {
        take(in_flight_.take_first());
        if (std::ssize(buffer_) < options_.arrivals_of_a_version()) continue;
        emit();
        return version_;
      }
      const int64_t open = options_.concurrency - in_flight_.size();
      if (open >= options_.open_slots) dispatch(open);
      move_on();
    }
  }

  void visit(StateFields& fields);

  int64_t version() const { return version_.number; }
  Ticks now() const { return now_; }
  int64_t calls() const { return calls_; }
  std::span<const BufferedTask> buffered() const { return buffer_; }
  const TasksInFlight& in_flight() const { return in_flight_; }
  std::map<int64_t, int64_t> needed() const { return needed_.needed(); }

 private:
  struct OfClient {
    int64_t version = -1;  // at which it was dispatched last
    int64_t times = 0;     // it was dispatched at that version
  };
  // A client with what its draw says; with NextClient::kSame it begins anew after its own task.
  struct Starter {
    int64_t client = 0;
    double weight = 1;
    double probability = 0;
    int64_t count = 1;
  };

  static Starter drawn_client(const Dispatched& drawn, std::size_t i) {
    return {.client = drawn.clients[i],
            .weight = drawn.weights.empty() ? 1 : drawn.weights[i],
            .probability = drawn.probabilities.empty() ? 0 : drawn.probabilities[i],
            .count = drawn.counts.empty() ? 1 : drawn.counts[i]};
  }
  void take(BufferedTask task);
  void emit();
  void move_on();
  Ticks next_look() const;
  void dispatch(int64_t open);
  int64_t start_again();
  void start(const Starter& drawn, int64_t place);

  AsyncOptions options_;
  Ticks empty_;
  const Tasks& tasks_;
  OnLine& on_line_;
  Dispatcher& dispatcher_;
  IdleClients idle_;

  Ticks now_ = 0;
  int64_t calls_ = 0;
  TasksInFlight in_flight_;
  std::vector<BufferedTask> buffer_;
  VersionCounts needed_;
  std::vector<OfClient> of_clients_;  // [M]
  std::vector<Starter> again_;        // in the order in which their tasks ended
  BufferedVersion version_;
  int64_t discarded_ = 0, lost_ = 0;  // since the last version
  std::vector<BufferedTask> fallen_;  // these
  int64_t barren_ = 0;                // tasks without an arrival, since the last one
  double area_ = 0;                   // sum of tasks in flight x ticks, since the tick `since_` ...
  Ticks since_ = 0;                   // ... of a version
};

// A task's end is known.
void BufferedEvents::Play::take(BufferedTask task) {
  idle_.set_busy(task.client, false);
  if (options_.next == NextClient::kSame) {
    again_.push_back({task.client, task.weight, task.probability, task.count});
  }
  task.staleness = version_.number - task.received;
  const bool stale = options_.max_staleness > 0 && task.staleness > options_.max_staleness;
  barren_ = task.arrives ? 0 : barren_ + 1;
  if (task.arrives && !stale) {
    buffer_.push_back(task);
    return;
  }
  needed_.add(task.received, -1);
  ++(task.arrives ? discarded_ : lost_);
  fallen_.push_back(task);
  if (barren_ < kMostBarren) return;
  throw InvalidArgument(fmt::format("the last {} tasks were all lost", kMostBarren), "clock.kind",
                        "clients are on line for too short, or clock.lost is too large");
}

void BufferedEvents::Play::emit() {
  if (now_ > since_) {
    version_.in_flight_mean = area_ / static_cast<double>(now_ - since_);
    area_ = 0;
    since_ = now_;
  }
  version_.duration = now_ - version_.tick;
  version_.tick = now_;
  ++version_.number;
  version_.discarded = std::exchange(discarded_, 0);
  version_.lost = std::exchange(lost_, 0);
  version_.on_line = on_line_.on_line();
  std::swap(version_.members, buffer_);
  buffer_.clear();
  std::swap(version_.fallen, fallen_);
  fallen_.clear();
  for (const BufferedTask& task : version_.members) needed_.add(task.received, -1);
}

// Moves the clock to the next end of a task; without tasks in flight, to the next look.
void BufferedEvents::Play::move_on() {
  const Ticks next = in_flight_.empty() ? next_look() : in_flight_.first().known;
  area_ += static_cast<double>(in_flight_.size()) * static_cast<double>(next - now_);
  now_ = next;
}

// Nothing is in flight: when the first comes on line of those that may start.
Ticks BufferedEvents::Play::next_look() const {
  const bool all_slots_are_kept = std::ssize(again_) >= options_.concurrency;
  if (!all_slots_are_kept && idle_.count() > 0) return later(now_, empty_);  // nobody was drawn
  Ticks next = all_slots_are_kept ? kNever : on_line_.next_of_all();
  for (const Starter& again : again_) next = std::min(next, on_line_.next_on(again.client, now_));
  if (next != kNever) return next;
  throw InvalidArgument("nobody comes on line any more", "clock.availability");
}

void BufferedEvents::Play::dispatch(int64_t open) {
  for (int64_t looks = 1;; ++looks) {
    ++calls_;
    const auto toggle = [&] {
      if (const auto changed = idle_.changes(now_); !changed.empty()) dispatcher_.toggle(changed);
    };
    toggle();
    const int64_t again = start_again();
    if (again > 0) toggle();
    // With NextClient::kSame only those are drawn who are missing from the first C.
    const int64_t wanted = std::min(open - again - std::ssize(again_), idle_.count());
    if (wanted > 0) {
      const Dispatched drawn = dispatcher_.draw(calls_, wanted);
      for (std::size_t i = 0; i < drawn.clients.size(); ++i) {
        start(drawn_client(drawn, i), again + static_cast<int64_t>(i));
      }
    }
    if (!in_flight_.empty()) return;
    leave_if_stopped();
    if (looks == kMostEmpty) {
      throw InvalidArgument(fmt::format("nobody was drawn in {} looks", looks), "sampler.kind");
    }
    move_on();
  }
}

// Clients that are on line begin anew; how many. [again_] keeps the others.
int64_t BufferedEvents::Play::start_again() {
  int64_t started = 0;
  std::erase_if(again_, [&](const Starter& again) {
    if (!on_line_.is_on(again.client, now_)) return false;
    start(again, started++);
    return true;
  });
  return started;
}

void BufferedEvents::Play::start(const Starter& drawn, int64_t place) {
  const int64_t client = drawn.client;
  OfClient& last = of_clients_[to_index(client)];
  if (last.version != version_.number) last = {.version = version_.number};
  const Fate fate = tasks_.fate(client, calls_, now_);
  in_flight_.add({.client = client,
                  .received = version_.number,
                  .call = calls_,
                  .place = place,
                  .weight = drawn.weight,
                  .probability = drawn.probability,
                  .count = drawn.count,
                  .start = now_,
                  .known = fate.known,
                  .arrives = fate.arrives,
                  .repeats = last.times++});
  needed_.add(version_.number, 1);
  idle_.set_busy(client, true);
}

// Behind a version the buffer is empty, and nobody was dispatched at it yet.
void BufferedEvents::Play::visit(StateFields& fields) {
  std::vector<BufferedTask> tasks = in_flight_.sorted(in_flight_.size());
  visit_tasks(fields, "in_flight", tasks);
  visit_member(fields, "again/client", again_, &Starter::client);
  visit_member(fields, "again/weight", again_, &Starter::weight);
  visit_member(fields, "again/probability", again_, &Starter::probability);
  visit_member(fields, "again/count", again_, &Starter::count);
  fields.numbers("counts", {&now_, &calls_, &version_.number, &version_.tick, &discarded_, &lost_,
                            &barren_, &since_});
  fields.numbers("in_flight_mean", {&area_, &version_.in_flight_mean});
  fields.part("on_line", on_line_);
  if (!fields.loads()) return;
  of_clients_.assign(of_clients_.size(), {});
  idle_ = IdleClients(on_line_);
  in_flight_ = {};
  needed_ = {};
  for (const BufferedTask& task : tasks) {
    in_flight_.add(task);
    needed_.add(task.received, 1);
    idle_.set_busy(task.client, true);
  }
}

BufferedEvents::BufferedEvents(const AsyncOptions& options, double empty_seconds,
                               const Tasks& tasks, OnLine& on_line, Dispatcher& dispatcher)
    : play_(std::make_unique<Play>(options, empty_seconds, tasks, on_line, dispatcher)) {}

BufferedEvents::~BufferedEvents() = default;

const BufferedVersion& BufferedEvents::next() { return play_->next(); }
int64_t BufferedEvents::version() const { return play_->version(); }
Ticks BufferedEvents::now() const { return play_->now(); }
int64_t BufferedEvents::calls() const { return play_->calls(); }
std::span<const BufferedTask> BufferedEvents::buffered() const { return play_->buffered(); }
std::vector<BufferedTask> BufferedEvents::in_flight(int64_t most) const {
  return play_->in_flight().sorted(most);
}
int64_t BufferedEvents::tasks_in_flight() const { return play_->in_flight().size(); }
std::map<int64_t, int64_t> BufferedEvents::versions_needed() const { return play_->needed(); }
void BufferedEvents::visit(StateFields& fields) { play_->visit(fields); }

}  // namespace hanse
