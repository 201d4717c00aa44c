// The models of an online federation's nodes on a device, several side by side.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "hanse/client/stream_fit.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/model/cohort.hpp"
#include "hanse/model/model.hpp"

namespace hanse {

struct CohortNodesSettings {
  std::string device = "cpu";  // as LibTorch names them
  int64_t clients = 8;         // C nodes or models at once
  int64_t batch = 1;           // B, the most samples of a node's batch
  int64_t nodes = 1;           // the most nodes of a rank
  int64_t steps = 1;           // of each fit
  double lr = 0.1;             // of each step
  StepBatch step = {};         // its samples
  KernelStarts starts = {};    // Cohort::Settings
  const PartModel* part = nullptr;
};

// make_sgd_fit() for C nodes at once on the cohort's device, which must outlive it.
std::unique_ptr<StreamFit> make_cohort_fit(Cohort& cohort, const CohortNodesSettings& settings,
                                           int64_t n_params);

// Results agree with those of the host's model within float tolerance. A node stands at the place
// node mod C of a cohort, a model of a comparison likewise: the bits do not depend on who computes
// them. Rows and batches come from the host's memory, and rows go back there. Memory on the device:
// a cohort's, and a batch of each of the rank's nodes.
class CohortNodes {
 public:
  // `model` and `federation` must outlive the object. Throws InvalidArgument as
  // TorchLibrary::make_cohort does.
  CohortNodes(Model& model, const Federation& federation, const ModelOptions& options,
              const CohortNodesSettings& settings);
  ~CohortNodes();

  // `model` with evaluations and cross_losses() on the device, C rows at once; the host still
  // computes single gradients.
  Model& model();
  // make_cohort_fit().
  StreamFit& fit();

 private:
  class OnDevice;
  std::unique_ptr<Cohort> cohort_;
  std::unique_ptr<OnDevice> model_;
  std::unique_ptr<StreamFit> fit_;
};

}  // namespace hanse
