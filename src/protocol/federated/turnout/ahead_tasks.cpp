#include "hanse/protocol/ahead_tasks.hpp"

#include <algorithm>

#include "hanse/base/index.hpp"

namespace hanse {

int64_t AheadTasks::take(int64_t client, const TaskOrigin& origin) {
  const auto found = trained_.find({client, origin});
  if (found == trained_.end()) return -1;
  const int64_t worker = found->second;
  trained_.erase(found);
  return worker;
}

std::vector<UpcomingTask> AheadTasks::plan(std::vector<double> loads,
                                           std::span<const UpcomingTask> upcoming,
                                           const std::function<double(const UpcomingTask&)>& cost) {
  std::vector<int64_t> rows(loads.size());
  for (const auto& [task, worker] : trained_) ++rows[to_index(worker)];
  const double end = *std::max_element(loads.begin(), loads.end());
  std::vector<UpcomingTask> planned;
  for (UpcomingTask task : upcoming) {
    if (trained_.contains({task.client, task.origin})) continue;
    const auto idle = std::min_element(loads.begin(), loads.end());
    task.worker = idle - loads.begin();
    const double seconds = cost(task);
    if (*idle + seconds > end || rows[to_index(task.worker)] == kMostRows) break;
    *idle += seconds;
    ++rows[to_index(task.worker)];
    trained_.emplace(Task(task.client, task.origin), task.worker);
    planned.push_back(task);
  }
  return planned;
}

}  // namespace hanse
