// How a rank waits. Private to comm/.
#pragma once

#include "hanse/base/clock.hpp"
#include "watchdog.hpp"

namespace hanse {

// Of one wait: the rank polls, then sleeps between polls, longer each time, so that it leaves its
// core to others.
class Patience {
 public:
  // Sleeps after `polls_s`.
  Patience(double polls_s, Watchdog& watchdog) : polls_s_(polls_s), watchdog_(watchdog) {}

  // Between two polls.
  void pause();
  // Something came: it waits for the next thing.
  void renew();

 private:
  double polls_s_;
  Watchdog& watchdog_;
  double start_s_ = monotonic_seconds();
  long sleep_ns_ = 0;
};

}  // namespace hanse
