#include "device/client_lanes.hpp"

#include <utility>

#include "hanse/base/index.hpp"

namespace hanse {

ClientLanes::ClientLanes(std::vector<std::unique_ptr<GraphRecorder>> lanes, int64_t most)
    : most_(most) {
  for (auto& recorder : lanes) lanes_.push_back({.recorder = std::move(recorder)});
}

void ClientLanes::run(const Kind& kind, const Work& passes) {
  if (lanes_.empty()) return passes();
  Lane& lane = lanes_[to_index(std::get<0>(kind)) % lanes_.size()];
  const auto [place, is_new] = lane.kinds.try_emplace(kind);
  std::unique_ptr<Recording>& recording = place->second;
  if (!is_new && !recording) record(lane, recording, passes);
  lane.is_open = true;
  lane.recorder->start([&] { recording ? recording->replay() : passes(); });
}

void ClientLanes::record(Lane& lane, std::unique_ptr<Recording>& recording, const Work& passes) {
  if (fails_ || lane.recorded == most_) return;
  recording = recorded_or_said(*lane.recorder, passes);
  fails_ = !recording;
  if (recording) ++lane.recorded;
}

void ClientLanes::join() {
  for (Lane& lane : lanes_) {
    if (std::exchange(lane.is_open, false)) lane.recorder->join();
  }
}

void ClientLanes::forget() {
  for (Lane& lane : lanes_) {
    lane.kinds.clear();
    lane.recorded = 0;
  }
}

}  // namespace hanse
