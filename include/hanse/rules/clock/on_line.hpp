// When clients are on line: a function of virtual time. A client is on line from the first tick of
// an interval to the one before its end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "hanse/base/state.hpp"
#include "hanse/rules/clock/options.hpp"
#include "hanse/rules/clock/ticks.hpp"

namespace hanse {

// Its state is the time of the last changes() and what makes the way there short. Questions about
// a client are about that time or later ones.
class OnLine : public Stateful {
 public:
  explicit OnLine(int64_t clients) : clients_(clients) {}

  int64_t clients() const { return clients_; }

  virtual bool is_on(int64_t client, Ticks t) const = 0;
  // The first tick after t at which the client's state is another one; kNever: it stays.
  virtual Ticks next_change(int64_t client, Ticks t) const = 0;
  // The first tick after t at which the client, on line at t, goes; kNever: it stays.
  Ticks next_off(int64_t client, Ticks t) const;
  // The first tick from t on at which the client is on line; kNever: it does not come.
  Ticks next_on(int64_t client, Ticks t) const;
  // When the client, on line at t, has been on line for so many ticks since. Who goes in the last
  // of them has gone: the end is in its next time on line then. Cost: O(times on line that the work
  // spans), of those that come again in a period no more than a period's. Throws InvalidArgument
  // that names the client, and Stopped.
  virtual Ticks end_of_work(int64_t client, Ticks t, Ticks work) const;
  virtual bool always() const { return false; }

  // Clients that came or went since the last call; in the first, and in the first after a load,
  // since everyone was there. Each stands once, in ascending order. REQUIRES: times that grow.
  // Cost: O(M) in the first, then O(log M) a client that came or went meanwhile.
  std::vector<int64_t> changes(Ticks now);

  // How many are on line at the time of the last changes(); before it, all.
  int64_t on_line() const { return on_line_; }
  // The first tick after the last changes() at which somebody comes or goes; kNever: nobody does.
  Ticks next_of_all() const { return due_.empty() ? kNever : due_.top().first; }

 protected:
  // What comes again: so many ticks on line in each period; 0: nothing does.
  struct Cycle {
    Ticks period = 0;
    Ticks on = 0;
  };
  virtual Cycle cycle(int64_t /*client*/) const { return {}; }
  // The client's past until `now` will not be asked for again.
  virtual void forget(int64_t /*client*/, Ticks /*now*/) {}
  void visit(StateFields& fields) override;

 private:
  std::vector<int64_t> first_changes(Ticks now);

  using Change = std::pair<Ticks, int64_t>;  // when, client
  int64_t clients_;
  int64_t on_line_ = clients_;
  std::vector<bool> was_on_;  // [M] at the last call; empty: before the first
  std::priority_queue<Change, std::vector<Change>, std::greater<>> due_;
};

// Everyone, always. Calls cost nothing.
std::unique_ptr<OnLine> make_always_on_line(int64_t clients);

// On and off for exponential times of these mean seconds, on at 0 with probability on/(on + off).
// Memory: 24 bytes a client. State: as much.
std::unique_ptr<OnLine> make_markov_on_line(int64_t clients, double on_s, double off_s,
                                            uint64_t seed);

// On while frac(t/period + phase) < share, the phase uniform for each client. Memory: 8 bytes a
// client.
std::unique_ptr<OnLine> make_diurnal_on_line(int64_t clients, double period_s, double share,
                                             uint64_t seed);

// A client is on line for on <= t mod period < off.
struct OnInterval {
  int64_t client = 0;
  Ticks on = 0;
  Ticks off = 0;
};

// Clients that no interval names are always on line. REQUIRES: intervals of a client ascend, do not
// overlap, and lie in [0, period]. Memory: 16 bytes an interval, 8 a client.
std::unique_ptr<OnLine> make_periodic_on_line(int64_t clients, Ticks period,
                                              std::span<const OnInterval> intervals);

}  // namespace hanse
