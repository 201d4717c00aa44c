// Synchronous rounds on the virtual clock: who of the drawn clients counts, and when rounds end.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "hanse/base/columns.hpp"
#include "hanse/base/state.hpp"
#include "hanse/rules/clock/on_line.hpp"
#include "hanse/rules/clock/options.hpp"
#include "hanse/rules/clock/tasks.hpp"
#include "hanse/rules/clock/ticks.hpp"

namespace hanse {

class IdleClients;

// A task that arrives in a later round than the one that drew its client.
struct CarriedTask {
  int64_t client = 0;
  int64_t round = 0;  // that drew it: its client works with the model of that round
  int64_t place = 0;  // in that round's draw
  double weight = 1;  // in that round's draw
  Ticks start = 0;
  Ticks known = 0;        // its arrival, or when it is known that nothing comes
  bool arrives = true;    // false: lost
  int64_t staleness = 0;  // rounds from the one that drew it to the one in which it counts
};

// A round, with places in its draw: ascending ones.
struct RoundTimes {
  int64_t round = 0;
  Ticks start = 0;
  Ticks end = 0;                     // without the server's time
  std::vector<Ticks> known;          // [drawn] arrivals, or when it is known that nothing comes
  std::vector<int64_t> counted;      // they arrive in time, and are the only ones to train
  std::vector<int64_t> steps;        // [counted] that each makes; 0: all of its task
  std::vector<int64_t> late;         // they arrive after the round's end, or do not start
  std::vector<int64_t> lost;         // nothing comes of them
  std::vector<CarriedTask> carried;  // tasks of earlier rounds that count in this one, in the order
                                     // of (round, place); with LateRule::kCarry
};

// Its state: the time, the tasks in flight of LateRule::kCarry, and how often each client counted.
class RoundClock : public Stateful {
 public:
  // `per_round`: K. REQUIRES: the references outlive it. Cost: O(1), O(M) for a deadline by
  // quantile.
  RoundClock(const ClockOptions& options, int64_t per_round, const Tasks& tasks, OnLine& on_line);
  ~RoundClock() override;

  // Virtual time: the end of the last round, with the server's time.
  Ticks now() const { return now_; }
  // The deadline, in ticks after a round's start.
  Ticks deadline() const { return deadline_; }

  // Clients that the sampler must toggle: those that came or went since the last call, on line or
  // (LateRule::kCarry) with a task in flight; in the first call, and in the first after a load,
  // since everyone was there. Each stands once.
  std::vector<int64_t> changes();

  // How many to draw of so many that are there: min(available, ceil(over-select K)).
  int64_t to_draw(int64_t available) const;

  // Plays the round of these clients, distinct and on line, from now(), and moves now() behind it.
  // `weights` [drawn] in the draw, for those that arrive later; empty: 1. Where nobody is drawn,
  // empty-seconds pass, or fewer until somebody comes on line. Valid until the next call. Cost:
  // O(n log n). Throws InvalidArgument that names the client whose time cannot be told.
  const RoundTimes& play(int64_t round, std::span<const int64_t> drawn,
                         std::span<const double> weights = {});
  // Rounds that had been completed when tasks in flight received their models, ascending.
  std::vector<int64_t> received_in_flight() const;
  // The round that was played last.
  const RoundTimes& last() const { return last_; }
  // [M] rounds in which each client counted.
  std::span<const int64_t> counted() const { return counted_; }

  // Adds to rounds.csv: virtual_seconds, round_virtual_seconds, on_line, drawn, arrived, counted,
  // late, lost, wasted_client_seconds, wasted_bytes, duration_p50, duration_max; to clients.csv:
  // counted; to summary.json: participation_gini, participation_entropy, participation_min and
  // unreachable_share, NaN where it is not known.
  void add_columns(Columns& columns,
                   double unreachable_share = std::numeric_limits<double>::quiet_NaN()) const;

 private:
  struct Attempt;
  void visit(StateFields& fields) override;

  std::vector<Attempt> attempts_of(int64_t round, std::span<const int64_t> drawn) const;
  Ticks end_of(std::span<const Attempt> attempts) const;
  Ticks end_of_empty() const;
  // Marks those who count: all in time, or the first of them.
  void choose_counted(std::span<Attempt> attempts) const;
  void take_arrived(int64_t round);
  void carry(int64_t round, std::span<const Attempt> attempts, std::span<const double> weights);
  void count(std::span<const Attempt> attempts);

  ClockOptions options_;
  int64_t per_round_;
  const Tasks& tasks_;
  OnLine& on_line_;
  std::unique_ptr<IdleClients> idle_;
  Ticks deadline_ = kNever;

  Ticks now_ = 0;
  std::vector<CarriedTask> in_flight_;  // of LateRule::kCarry, in the order of (round, place)
  std::vector<int64_t> counted_;        // [M]

  RoundTimes last_;
  std::array<double, 12> numbers_ = {};  // of the last round, as in rounds.csv
};

}  // namespace hanse
