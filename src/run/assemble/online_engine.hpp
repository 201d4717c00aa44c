// Where the nodes of an online federation are trained, compared and mixed.
#pragma once

#include <memory>

#include "hanse/client/cohort_nodes.hpp"
#include "hanse/client/stream_fit.hpp"
#include "hanse/model/mixing.hpp"
#include "hanse/run/assembly.hpp"

namespace hanse {

struct OnlineEngine {
  std::unique_ptr<StreamFit> on_host;      // one node after the other; null: side by side
  std::unique_ptr<CohortNodes> on_device;  // side by side on a GPU; null: one after the other
  RowMixer mix_rows = hanse::mix_rows;

  Model& model(Model& host) const { return on_device ? on_device->model() : host; }
  StreamFit& fit() const { return on_device ? on_device->fit() : *on_host; }
};

// Chooses GPUs where run.device does, or `given` (see assemble()), and tells `assembly`, which has
// its samples and its model, and must outlive the result. Collective. Throws AgreedError.
OnlineEngine choose_online_engine(const Job& job, Communicator& comm, const RankGpu* given,
                                  Assembly& assembly);

}  // namespace hanse
