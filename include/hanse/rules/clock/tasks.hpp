// What becomes of a task: a client's download, training and upload.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "hanse/rules/clock/on_line.hpp"
#include "hanse/rules/clock/options.hpp"
#include "hanse/rules/clock/profiles.hpp"
#include "hanse/rules/clock/ticks.hpp"

namespace hanse {

// How long tasks take.
class TaskTimes {
 public:
  virtual ~TaskTimes() = default;
  // Steps of a whole task of the client, at least 1.
  virtual int64_t steps(int64_t client) const = 0;
  // The phases of a task with so many of its steps. `number` is that of the round or of the
  // dispatch, from 1; 0: without jitter. Never falls with `steps`. Throws InvalidArgument that
  // names the client.
  virtual Phases phases(int64_t client, int64_t number, int64_t steps) const = 0;
  virtual RowBytes bytes() const { return {}; }

  Phases whole(int64_t client, int64_t number) const {
    return phases(client, number, steps(client));
  }
  // T of all M clients at whole tasks, without jitter. Cost: O(M).
  std::vector<Ticks> of_all(int64_t clients) const;
};

// What the clock must know of the clients' work.
struct ClientWork {
  std::function<int64_t(int64_t client)> steps;                   // of a whole task
  std::function<int64_t(int64_t client, int64_t steps)> samples;  // that so many steps process
  RowBytes bytes;
};

// By profiles and work.
class ProfiledTimes final : public TaskTimes {
 public:
  ProfiledTimes(ClientProfiles profiles, ClientWork work)
      : profiles_(std::move(profiles)), work_(std::move(work)) {}

  int64_t steps(int64_t client) const override { return work_.steps(client); }
  Phases phases(int64_t client, int64_t number, int64_t steps) const override {
    return profiles_.durations(client, work_.samples(client, steps), work_.bytes, number);
  }
  RowBytes bytes() const override { return work_.bytes; }
  const ClientProfiles& profiles() const { return profiles_; }

 private:
  ClientProfiles profiles_;
  ClientWork work_;
};

// Given durations of whole tasks, [M] seconds, each rounded once; a task has one step, and its
// download and upload take no time.
class GivenTimes final : public TaskTimes {
 public:
  // Throws InvalidArgument that names the client, as ticks_of() does.
  explicit GivenTimes(std::span<const double> durations_s);

  int64_t steps(int64_t) const override { return 1; }
  Phases phases(int64_t client, int64_t number, int64_t steps) const override;

 private:
  std::vector<Ticks> durations_;  // [M]
};

// lambda_i T_i / H with H = M / sum 1/T, the harmonic mean of the times: where all M clients are in
// flight, client i has the share (1/T_i) / sum 1/T of the arrivals, and counts lambda_i of a
// version in the long run.
std::vector<double> balanced_by_frequency(std::span<const double> lambda,
                                          std::span<const Ticks> durations);

// Which tasks never come back: drawn of (clock.seed, kLost, number, client).
class LostWork {
 public:
  LostWork() = default;  // none
  LostWork(double probability, uint64_t seed) : probabilities_{probability}, seed_(seed) {}
  // Client i has row i of [M].
  LostWork(std::vector<double> probabilities, uint64_t seed)
      : probabilities_(std::move(probabilities)), seed_(seed) {}

  bool is_lost(int64_t client, int64_t number) const;
  bool never() const;

 private:
  std::vector<double> probabilities_{0.0};  // of all, or of each client
  uint64_t seed_ = 0;
};

// What becomes of a task.
struct Fate {
  bool arrives = false;
  Ticks known = 0;  // its arrival, or when it is known that nothing comes
  Phases phases;    // of its work
};

// Tasks on clients that come and go, and lose some. REQUIRES: the references outlive it.
class Tasks {
 public:
  Tasks(const TaskTimes& times, const OnLine& on_line, LostWork lost, LeaveRule leave)
      : times_(times), on_line_(on_line), lost_(std::move(lost)), leave_(leave) {}

  // The fate of a task with so many steps that starts now, when its client is on line. A client
  // that goes off line in the tick of an arrival goes first. Cost: O(1), with LeaveRule::kPause
  // that of OnLine::end_of_work(). Throws as it does.
  Fate fate(int64_t client, int64_t number, Ticks start, int64_t steps) const;
  Fate fate(int64_t client, int64_t number, Ticks start) const {
    return fate(client, number, start, times_.steps(client));
  }
  // The most steps of the client's task that take at most `limit`: 0, ..., times().steps(client).
  // Cost: O(log steps).
  int64_t steps_within(int64_t client, int64_t number, Ticks limit) const;

  const TaskTimes& times() const { return times_; }

 private:
  const TaskTimes& times_;
  const OnLine& on_line_;
  LostWork lost_;
  LeaveRule leave_;
};

}  // namespace hanse
