// What the clients of a cohort train for: from the logits of a step to their gradients.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <ATen/ATen.h>

#include "device/cohort_noise.hpp"
#include "device/cohort_samples.hpp"
#include "device/step_table.hpp"
#include "hanse/model/cohort.hpp"
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
  const CohortSamples& samples;
  LossPtr loss;
  int64_t batch;
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
  // Begins a round of clients that have received these rows, [C, P] or [P] all of them. `weights`:
  // Cohort::Start::class_weights.
  virtual void start(const at::Tensor& received, std::span<const float> weights) = 0;
  // Computes what needs a pass of the network besides the step's own, before that one.
  virtual void prepare(int64_t /*clients*/) {}
  // Adds the gradient by the row itself, where the loss looks at it.
  virtual void add_row_gradient() {}
};

// The model's loss; with `smoothing` 0 or more that of smooth_labels().
std::unique_ptr<StepLoss> make_tensor_loss(LossParts parts, double smoothing);
// Uploads the weights of the first clients.
void put_weights(const LossParts& parts, std::span<const float> weights);

// Does LossWork know what such clients train for?
bool is_plain(const LabelForm& labels, const Cohort::Settings& settings);

// The tensors of the layout, each with a leading C, on the memory of rows [C, P].
std::vector<at::Tensor> tensors_of(const at::Tensor& rows, const ParameterLayout& layout);

// What an objective of the user's own reads besides, client after client.
struct ObjectiveParts {
  const CohortForward& network;
  std::vector<at::Tensor> rows, gradients;  // tensors_of() [C, P] each
  const ParameterLayout layout;             // of them
  int64_t own_seeds;                        // of CohortNoise, that the network takes
};
std::unique_ptr<StepLoss> make_objective_loss(LossParts parts, ObjectiveParts more,
                                              const ObjectiveCase& c);

}  // namespace hanse
