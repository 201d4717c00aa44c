// The gradients of a step's losses, for all clients of a cohort.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/ATen.h>

#include "device/client_lanes.hpp"
#include "device/cohort_noise.hpp"
#include "device/step_loss.hpp"
#include "device/step_table.hpp"
#include "hanse/model/layout.hpp"
#include "loss.hpp"
#include "network_spec.hpp"
#include "networks/cohorts/cohort_forward.hpp"

namespace hanse {

// What a cohort's steps compute with: the table's step, its masks, samples and rows. All must
// outlive the StepGradient and stay where they are.
struct StepParts {
  const StepTable& table;
  const CohortNoise& noise;
  LossPtr loss;
  StepLoss& step_loss;
  int64_t clients, batch;
  at::Tensor features;                      // [samples, values of a sample]
  at::Tensor targets;                       // LossParts
  std::vector<at::Tensor> rows, gradients;  // tensors_of() [C, P] each
  std::size_t trained = 0;                  // the first of them; buffers stand behind these
  at::Tensor buffers = {};                  // [C, values] those of the rows, as one
  bool narrow = false;                      // factors of products in bfloat16, of networks by hand
  bool plain = true;                        // a loss and labels that LossWork knows
};

class StepGradient {
 public:
  virtual ~StepGradient() = default;
  // Overwrites the gradient of the first `clients` of C; the others' may stay. Returns the mean
  // losses [clients] float64, and adds to `totals`; a client without samples has loss 0 and any
  // gradient.
  virtual at::Tensor find(int64_t clients, const StepTotals& totals) = 0;
  // Moves the buffers of the clients that had samples in the last find(): a step has to follow it.
  virtual void move_buffers() const {}
  // The tensors of totals are others from now on.
  virtual void forget() {}
};

// For any network.
std::unique_ptr<StepGradient> make_autograd_gradient(StepParts parts, CohortForward& network);

// For a network that knows its own way back: client after client, on lanes.
std::unique_ptr<StepGradient> make_client_gradient(StepParts parts, ClientPasses& network,
                                                   ClientLanes lanes);

// For a network of network_spec(): its layers and the way back written out, as one batched product
// of all clients each and our own kernels, in memory that is allocated once. Null when LossWork
// lacks the loss or the largest convolution unrolls to more than kMostColumns floats.
//
// Memory: an activation and its gradient for each value, and C inputs kernel^2 B pixels floats of
// the largest convolution; in bfloat16 twice its largest factor besides, of 2 bytes a value. Cost:
// twice the unrolling of all convolutions but the last; in bfloat16 a copy of each factor, and
// products by libraries in the place of LogitsWork, HeadWork and ProductWork.
inline constexpr int64_t kMostColumns = int64_t{1} << 29;
std::unique_ptr<StepGradient> make_network_gradient(const StepParts& parts, const NetworkSpec& spec,
                                                    const std::vector<int64_t>& sample_shape);

}  // namespace hanse
