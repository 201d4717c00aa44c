// Where the nodes of an online federation are trained, compared and mixed.
#pragma once

#include <memory>
#include <string>

#include "hanse/client/cohort_nodes.hpp"
#include "hanse/client/stream_fit.hpp"
#include "hanse/model/mixing.hpp"
#include "hanse/run/assembly.hpp"

namespace hanse {

struct OnlineEngine {
  std::unique_ptr<StreamFit> on_host;      // null on GPUs
  std::unique_ptr<CohortNodes> on_device;  // null on CPUs
  RowMixer mix_rows = hanse::mix_rows;
  std::string trained_on;

  Model& model(Model& host) const { return on_device ? on_device->model() : host; }
  StreamFit& fit() const { return on_device ? on_device->fit() : *on_host; }
};

// Chooses GPUs where run.device does. Collective. `assembly` has its samples and its model, and
// must outlive the result.
OnlineEngine choose_online_engine(const Job& job, Communicator& comm, const Assembly& assembly);

}  // namespace hanse
