// Streams of a device on which the passes of clients run side by side, recorded where they come
// again: a network that trains one client after the other rarely fills a GPU.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "device/step_graph.hpp"

namespace hanse {

class ClientLanes {
 public:
  // Passes of a kind start the same kernels, with the same shapes and addresses: a client's, of so
  // many samples, whose losses count or do not.
  using Kind = std::tuple<int64_t, int64_t, bool>;
  using Work = GraphRecorder::Work;

  // A client has its lane, and a lane's clients run one after the other. Without lanes passes run
  // at once. A lane records kinds when they come for the second time, `most` of them.
  ClientLanes(std::vector<std::unique_ptr<GraphRecorder>> lanes, int64_t most);

  // Does the passes beside those of other lanes, behind all that was begun before. Until join()
  // they have their results for themselves, and no other may write what they read.
  void run(const Kind& kind, const Work& passes);
  // What is begun from now on comes behind the passes of all lanes.
  void join();
  // Drops all recordings: the addresses that they use have changed.
  void forget();

 private:
  struct Lane {
    std::unique_ptr<GraphRecorder> recorder;
    std::map<Kind, std::unique_ptr<Recording>> kinds = {};  // null: not recorded
    int64_t recorded = 0;
    bool is_open = false;  // has begun passes since join()
  };

  void record(Lane& lane, std::unique_ptr<Recording>& recording, const Work& passes);

  std::vector<Lane> lanes_;
  int64_t most_;
  bool fails_ = false;
};

}  // namespace hanse
