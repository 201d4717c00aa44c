// Ends a run in which a rank does not come to a collective operation that others wait in, and says
// which one and where.
//
// A rank that has waited too long asks all others; those that wait too answer where they poll.
// Whoever does not answer is named. The rank that asked first speaks and ends all. If it cannot
// ask, because it is inside a blocking call of MPI, a thread of its own ends it a little later.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <mpi.h>

#include "hanse/base/clock.hpp"

namespace hanse {

class Watchdog {
 public:
  // Collective. Keeps a duplicate of `comm`, which holds all ranks of the run.
  explicit Watchdog(MPI_Comm comm);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Seconds that a rank waits in one operation before it asks; 0: forever. They count while this
  // process runs: not while a job is suspended, and not by the wall clock. `way_on`: how one goes
  // on after the end of the run, for the hint of its message.
  void set_timeout(double seconds, const std::string& way_on);
  // What the ranks do from now on. `phase` must be a literal.
  void enter_phase(const char* phase, int64_t round);

  // Lives for the time of one operation.
  class Waiting {
   public:
    explicit Waiting(Watchdog& watchdog) : watchdog_(watchdog) { ++watchdog_.beat_; }
    ~Waiting() {
      ++watchdog_.beat_;
      if (watchdog_.question_) watchdog_.forget();
    }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    Watchdog& watchdog_;
  };

  // Ranks that poll call it: it answers whoever asks, and asks when this rank has waited too long.
  // In the end it does not return. Cost: a probe for a message.
  void poll();

 private:
  void count(const std::stop_token& stop);
  void ask_all();
  void hear();
  void forget();
  [[noreturn]] void name_missing() const;
  std::string place() const;
  std::string hint() const;

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  std::vector<std::string> hosts_;  // [size] names
  std::atomic<const char*> phase_{"setup"};
  std::atomic<int64_t> round_{0};
  mutable std::mutex way_on_mutex_;
  std::string way_on_;
  std::atomic<uint64_t> beat_{0};    // odd while this rank waits
  std::atomic<double> waited_s_{0};  // in the operation it is in
  double timeout_s_ = 0;

  // About the operation that this rank waits in:
  bool question_ = false;  // this rank or another one has asked
  bool yields_ = false;    // another one speaks
  bool asked_twice_ = false;
  double asked_at_s_ = 0;
  std::vector<char> answered_;  // [size]
  int64_t questions_ = 0;       // that this rank ever asked: an answer names its question

  std::jthread thread_;
};

// How one wait sleeps: the rank polls, then sleeps between polls, longer each time, so that it
// leaves its core to others.
class Patience {
 public:
  // Sleeps after `polls_s` seconds of polls.
  Patience(double polls_s, Watchdog& watchdog) : polls_s_(polls_s), watchdog_(watchdog) {}

  // Waits between two polls.
  void pause();
  // Call it after a message came: the next wait starts with short sleeps again.
  void renew();

 private:
  double polls_s_;
  Watchdog& watchdog_;
  double start_s_ = monotonic_seconds();
  long sleep_ns_ = 0;
};

}  // namespace hanse
