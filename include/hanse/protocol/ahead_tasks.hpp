// Which tasks of later rounds ranks train while they would wait for the last one: rank 0.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "hanse/protocol/turnout.hpp"

namespace hanse {

class AheadTasks {
 public:
  static constexpr int64_t kMostRows = 2;  // of a worker; each is a model's

  // The worker that has trained the task, whose round has come; -1: nobody has.
  int64_t take(int64_t client, const TaskOrigin& origin);

  // Gives workers with these loads, [workers] seconds, tasks that end before the longest load does:
  // the first upcoming ones, each to the worker with the least to do. `cost`: seconds of a task.
  // Cost: O(workers) a task.
  std::vector<UpcomingTask> plan(std::vector<double> loads, std::span<const UpcomingTask> upcoming,
                                 const std::function<double(const UpcomingTask&)>& cost);

 private:
  using Task = std::pair<int64_t, TaskOrigin>;  // client
  std::map<Task, int64_t> trained_;             // by this worker; their rounds are yet to come
};

}  // namespace hanse
