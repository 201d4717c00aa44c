// Where a run is, for those who wait for it: for other ranks, and for a user who asks it to stop.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "hanse/base/stop_request.hpp"
#include "hanse/comm/communicator.hpp"

namespace hanse {

class RunPhases {
 public:
  explicit RunPhases(Communicator& comm) : comm_(comm) {}

  // Communicator::enter_phase(). The text stays.
  void enter(const char* phase, int64_t round);
  // Rounds begin: from here on requests to stop are heard, by signals and at `end_s` of
  // monotonic_seconds(), 0 for never. Rank 0 says what a request waits for, a second after it.
  void hear_requests(double end_s);

 private:
  void watch(const std::stop_token& stop);
  std::string awaited() const;

  Communicator& comm_;
  std::optional<StopTime> end_;
  std::atomic<const char*> phase_ = "";
  std::atomic<int64_t> round_ = 0;
  std::jthread thread_;  // looks for requests, on rank 0; ends first
};

}  // namespace hanse
