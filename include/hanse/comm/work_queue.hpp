// A counter that the ranks of one host share: each takes the next piece of work when it is free.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "hanse/comm/communicator.hpp"

namespace hanse {

class WorkQueue {
 public:
  // Collective over the ranks of one host, of which `takers` will call next().
  WorkQueue(Communicator& host, int64_t takers);

  // Starts a phase of `items` pieces; all takers name the same number. REQUIRES: every taker has
  // got the -1 of the phase before, and a collective lies between.
  void start(int64_t items);
  // The next piece in [0, items), or -1 once when there is none left. Lock-free, one fetch-add.
  int64_t next();

 private:
  std::shared_ptr<std::byte> memory_;
  std::atomic<int64_t>* counter_;
  int64_t takers_;
  int64_t base_ = 0;  // the counter's value at the start of the phase
  int64_t items_ = 0;
  bool first_ = true;
};

}  // namespace hanse
