// Tasks of asynchronous rounds in the order of their ends, and the versions that they need.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <queue>
#include <tuple>
#include <vector>

#include "hanse/base/index.hpp"
#include "hanse/rules/clock/buffered_task.hpp"

namespace hanse {

// Tasks in flight, by when their ends will be known. An end costs O(log C); a task is moved twice.
class TasksInFlight {
 public:
  bool empty() const { return due_.empty(); }
  int64_t size() const { return std::ssize(due_.entries()); }
  const BufferedTask& first() const { return slots_[due_.top().slot]; }

  void add(const BufferedTask& task) {
    if (free_.empty()) {
      free_.push_back(slots_.size());
      slots_.emplace_back();
    }
    slots_[free_.back()] = task;
    due_.push({task.known, task.call, task.place, free_.back()});
    free_.pop_back();
  }
  BufferedTask take_first() {
    const std::size_t slot = due_.top().slot;
    due_.pop();
    free_.push_back(slot);
    return slots_[slot];
  }

  // The first `most` in the order of their ends.
  std::vector<BufferedTask> sorted(int64_t most) const {
    std::vector<Due> entries(due_.entries());
    const auto end = entries.begin() + std::min<int64_t>(most, size());
    std::partial_sort(entries.begin(), end, entries.end(),
                      [](const Due& a, const Due& b) { return b > a; });
    std::vector<BufferedTask> tasks;
    std::for_each(entries.begin(), end, [&](const Due& due) { tasks.push_back(slots_[due.slot]); });
    return tasks;
  }

 private:
  struct Due {
    Ticks known;
    int64_t call, place;
    std::size_t slot;
    bool operator>(const Due& other) const {
      return std::tie(known, call, place) > std::tie(other.known, other.call, other.place);
    }
  };
  struct Queue : std::priority_queue<Due, std::vector<Due>, std::greater<>> {
    const std::vector<Due>& entries() const { return c; }
  };
  Queue due_;
  std::vector<BufferedTask> slots_;
  std::vector<std::size_t> free_;
};

// How many tasks need each version. Versions that are needed lie close together.
class VersionCounts {
 public:
  void add(int64_t version, int64_t tasks) {
    if (counts_.empty()) oldest_ = version;
    for (; version < oldest_; --oldest_) counts_.push_front(0);
    while (oldest_ + std::ssize(counts_) <= version) counts_.push_back(0);
    counts_[to_index(version - oldest_)] += tasks;
    for (; !counts_.empty() && counts_.front() == 0; ++oldest_) counts_.pop_front();
  }
  std::map<int64_t, int64_t> needed() const {
    std::map<int64_t, int64_t> needed;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] > 0) needed.emplace(oldest_ + static_cast<int64_t>(i), counts_[i]);
    }
    return needed;
  }

 private:
  int64_t oldest_ = 0;
  std::deque<int64_t> counts_;  // of version oldest_, oldest_ + 1, ...
};

}  // namespace hanse
