// Who can be drawn: clients that are on line and have no task in flight.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "hanse/base/index.hpp"
#include "hanse/rules/clock/on_line.hpp"

namespace hanse {

class IdleClients {
 public:
  // REQUIRES: the reference outlives it.
  explicit IdleClients(OnLine& on_line)
      : on_line_(&on_line),
        busy_(to_index(on_line.clients()), false),
        told_(to_index(on_line.clients()), true),
        count_(on_line.clients()) {}

  // The client has a task from now on, or none.
  void set_busy(int64_t client, bool busy) {
    busy_[to_index(client)] = busy;
    touched_.push_back(client);
  }

  // Clients that came or went since the last call; in the first, since all were there. Each stands
  // once, in ascending order. Cost: that of OnLine::changes(), and the clients set_busy() named.
  std::vector<int64_t> changes(Ticks now) {
    std::vector<int64_t> changed = on_line_->changes(now);
    changed.insert(changed.end(), touched_.begin(), touched_.end());
    touched_.clear();
    std::erase_if(changed, [&](int64_t client) {
      const std::size_t i = to_index(client);
      const bool there = !busy_[i] && on_line_->is_on(client, now);
      if (there == told_[i]) return true;
      told_[i] = there;
      count_ += there ? 1 : -1;
      return false;
    });
    std::sort(changed.begin(), changed.end());
    return changed;
  }

  // How many are there, by the last changes().
  int64_t count() const { return count_; }

 private:
  OnLine* on_line_;
  std::vector<bool> busy_;  // [M]
  std::vector<bool> told_;  // [M] there, by the last changes()
  int64_t count_;
  std::vector<int64_t> touched_;
};

}  // namespace hanse
