// Where the stored gradient of a step comes from.
#pragma once

#include <memory>
#include <span>

#include "hanse/client/client_task.hpp"
#include "hanse/client/options.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/model/model.hpp"

namespace hanse {

class StoredGradient {
 public:
  virtual ~StoredGradient() = default;
  // Begins a participation; its steps follow in their order.
  virtual void start(const ClientTask& /*task*/) {}
  // Writes the gradient [P], 0 for buffers, and returns the batch's mean loss.
  virtual double find(std::span<const float> row, const Batch& batch, RandomStream& noise,
                      std::span<float> gradient) = 0;
};

// The mean over the batch; with options.private_steps the noised one of DP-SGD
// (rules/privacy/private_steps.hpp), divided by the expected batch. `federation` and `model` must
// outlive the object. Memory: with private_steps P float64 and P int64.
std::unique_ptr<StoredGradient> make_stored_gradient(const ClientOptions& options,
                                                     const Federation& federation, Model& model);

}  // namespace hanse
