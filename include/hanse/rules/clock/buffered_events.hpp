// Asynchronous rounds: which tasks arrive when, and which make each version of the model. All of it
// is known without training anything.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "hanse/base/state.hpp"
#include "hanse/rules/clock/buffered_task.hpp"
#include "hanse/rules/clock/on_line.hpp"
#include "hanse/rules/clock/options.hpp"
#include "hanse/rules/clock/tasks.hpp"
#include "hanse/rules/clock/ticks.hpp"

namespace hanse {

struct BufferedVersion {
  int64_t number = 0;                 // from 1
  Ticks tick = 0;                     // of the arrival that completes it
  std::vector<BufferedTask> members;  // in the order of arrival
  // Since the version before:
  Ticks duration = 0;
  std::vector<BufferedTask> fallen;  // discarded or lost, in the order of their ends
  int64_t discarded = 0;             // arrivals beyond max-staleness
  int64_t lost = 0;                  // tasks of which nothing came
  int64_t on_line = 0;               // clients, by the last dispatch
  double in_flight_mean = 0;  // tasks in flight, over the time since the last version that is of an
                              // earlier tick
};

// Who starts in a dispatch: clients in the draw's order, with their weights ([n], empty: 1), and
// with what samplers learn by: first probabilities ([n], empty: unknown) and counts ([n], empty:
// 1).
struct Dispatched {
  std::vector<int64_t> clients;
  std::vector<double> weights;
  std::vector<double> probabilities = {};
  std::vector<int64_t> counts = {};
};

class Dispatcher {
 public:
  virtual ~Dispatcher() = default;
  // These clients came or went: a client is there when it is on line and has no task in flight. All
  // are at first, and after a load of the events. Each stands once.
  virtual void toggle(std::span<const int64_t> clients) = 0;
  // Draws n of those who are there, for the dispatch of this number, from 1. n >= 1, and not more
  // than are there. Fewer may come.
  virtual Dispatched draw(int64_t call, int64_t n) = 0;
};

// Its state, between calls of next(): the time, the version and tasks in flight.
class BufferedEvents : public Stateful {
 public:
  // REQUIRES: the references outlive it; 1 <= concurrency <= clients, 1 <= open_slots <=
  // concurrency.
  BufferedEvents(const AsyncOptions& options, double empty_seconds, const Tasks& tasks,
                 OnLine& on_line, Dispatcher& dispatcher);
  ~BufferedEvents() override;

  // Goes on to the arrival that completes the next version. All versions of a tick come before the
  // dispatch of that tick, which the next call begins with: what the dispatcher learns from a
  // version it knows before its next draw. Valid until the next call. Cost of an arrival: O(log C)
  // and the draw. Throws InvalidArgument that names the client whose time cannot be told, or when
  // nothing arrives any more.
  const BufferedVersion& next();

  // The last version and its time; what is below is true at that time.
  int64_t version() const;
  Ticks now() const;
  // Dispatches so far.
  int64_t calls() const;
  // Arrivals that wait for the next version, in their order: for a dispatcher's draw. None behind a
  // version.
  std::span<const BufferedTask> buffered() const;
  // The first `most` in the order in which their ends will be known: (known, call, place).
  // Cost: O(C + most log most).
  std::vector<BufferedTask> in_flight(int64_t most = std::numeric_limits<int64_t>::max()) const;
  int64_t tasks_in_flight() const;
  // Versions that tasks in flight or in the buffer have received, and how many did.
  // Cost: O(staleness of the oldest).
  std::map<int64_t, int64_t> versions_needed() const;

 private:
  class Play;
  void visit(StateFields& fields) override;

  std::unique_ptr<Play> play_;
};

}  // namespace hanse
