#include "device/step_graph.hpp"

#include <algorithm>
#include <exception>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/log.hpp"

namespace hanse {

void StepGraphs::run(const Kind& kind, int64_t count, const Steps& steps) {
  if (count > 0 && !fails_ && graphs_.find(kind) == graphs_.end()) {
    recorder_->warm_up([&] { steps(1); });
    graphs_[kind];
    --count;
  }
  for (; count > 0 && !fails_;) {
    const int64_t some = std::min(most_, count);
    std::unique_ptr<Recording>& graph = graphs_[kind][some];
    try {
      if (!graph) graph = recorder_->record([&] { steps(some); });
    } catch (const std::exception& error) {
      notice(fmt::format("a step is not recorded, its kernels are started one by one: {}",
                         first_line(error)));
      fails_ = true;
      break;
    }
    graph->replay();
    count -= some;
  }
  if (count > 0) steps(count);
}

}  // namespace hanse
