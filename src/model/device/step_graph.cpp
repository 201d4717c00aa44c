#include "device/step_graph.hpp"

#include <exception>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/log.hpp"

namespace hanse {

void StepGraph::run(const GraphRecorder::Step& step) {
  switch (state_) {
    case State::kNew:
      recorder_->warm_up(step);
      state_ = State::kWarm;
      return;
    case State::kWarm: try { recorder_->record(step);
      } catch (const std::exception& error) {
        notice(fmt::format("a step is not recorded, its kernels are started one by one: {}",
                           first_line(error)));
        state_ = State::kFailed;
        return step();
      }
      state_ = State::kRecorded;
      return recorder_->replay();
    case State::kRecorded: return recorder_->replay();
    case State::kFailed: return step();
  }
}

}  // namespace hanse
