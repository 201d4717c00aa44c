// What the clients of a cohort train for: from the logits of a step to their gradients.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/ATen.h>

#include "device/cohort_noise.hpp"
#include "device/step_table.hpp"
#include "hanse/model/layout.hpp"
#include "loss.hpp"
#include "networks/cohorts/cohort_forward.hpp"
#include "objective.hpp"

namespace hanse {

// Where a step adds what its clients lost: [C] float64; undefined: nowhere.
struct StepTotals {
  at::Tensor losses;   // mean losses
  at::Tensor squares;  // squared losses of the samples
};

// Some clients of a step, and so many samples of each: its own stand in front.
struct ClientBatches {
  int64_t first, clients, samples;
};

// All must outlive the StepLoss and stay where they are.
struct LossParts {
  const StepTable& table;
  const CohortNoise& noise;
  LossPtr loss;
  int64_t batch;
  at::Tensor targets;  // [samples] or [samples, values] labels, int32; targets, float32
  at::Tensor others;   // likewise, of mixtures; undefined: nothing is mixed
  at::Tensor shares;   // [samples] of the own labels in a mixture
  at::Tensor weights;  // [C, classes]; undefined: all 1
};

class StepLoss {
 public:
  struct Found {
    at::Tensor delta;  // like the logits
    at::Tensor means;  // [clients] float64
  };
  virtual ~StepLoss() = default;
  // The gradient of each client's mean loss by its logits z [clients, samples, ...], and these
  // losses, which it adds to `totals`. A client without samples has loss 0 and any gradient.
  virtual Found differentiate(const at::Tensor& z, const ClientBatches& of,
                              const StepTotals& totals) = 0;
  // Tells the rows [C, P] that the clients have received.
  virtual void receive(const at::Tensor& /*rows*/) {}
  // Computes what needs a pass of the network besides the step's own, before that one.
  virtual void prepare(int64_t /*clients*/) {}
  // Adds the gradient by the row itself, where the loss looks at it.
  virtual void add_row_gradient() {}
};

// The model's loss; with `smoothing` 0 or more that of smooth_labels().
std::unique_ptr<StepLoss> make_step_loss(LossParts parts, double smoothing);

// The tensors of the layout, each with a leading C, on the memory of rows [C, P].
std::vector<at::Tensor> tensors_of(const at::Tensor& rows, const ParameterLayout& layout);

// What an objective of the user's own reads besides, client after client.
struct ObjectiveParts {
  const CohortForward& network;
  at::Tensor features;                      // [samples, values of a sample]
  std::vector<at::Tensor> rows, gradients;  // tensors_of() [C, P] each
  const ParameterLayout layout;             // of them
  int64_t own_seeds;                        // of CohortNoise, that the network takes
};
std::unique_ptr<StepLoss> make_objective_loss(LossParts parts, ObjectiveParts more,
                                              const ObjectiveCase& c);

}  // namespace hanse
