#include "device/step_graph.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/log.hpp"

namespace hanse {

namespace {

// The largest that is not above n.
int64_t power_of_two(int64_t n) {
  int64_t power = 1;
  while (power <= n / 2) power *= 2;
  return power;
}

}  // namespace

std::unique_ptr<Recording> recorded_or_said(GraphRecorder& recorder,
                                            const GraphRecorder::Work& work) {
  try {
    return recorder.record(work);
  } catch (const std::exception& error) {
    notice(fmt::format("a step is not recorded, its kernels are started one by one: {}",
                       first_line(error)));
    return nullptr;
  }
}

void StepGraphs::run(const Kind& kind, int64_t count, const Steps& steps) {
  if (count == 0) return;
  const bool is_new = kinds_.find(kind) == kinds_.end();
  Graphs& graphs = kinds_[kind];
  const bool again = std::exchange(graphs.last_count, count) == count;
  if (is_new && !fails_) {
    recorder_->start([&] { steps(1); });
    recorder_->join();
    --count;
  }
  while (count > 0 && !fails_) {
    int64_t some = std::min(count, most_);
    if (!again && graphs.of.count(some) == 0) some = power_of_two(some);
    std::unique_ptr<Recording>& graph = graphs.of[some];
    if (!graph) graph = recorded_or_said(*recorder_, [&] { steps(some); });
    fails_ = !graph;
    if (fails_) break;
    graph->replay();
    count -= some;
  }
  if (count > 0) steps(count);
}

}  // namespace hanse
