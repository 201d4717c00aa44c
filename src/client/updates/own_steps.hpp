// What updates share that take gradients at several models.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "batch_stream.hpp"
#include "hanse/base/index.hpp"
#include "hanse/client/local_update.hpp"
#include "hanse/model/model.hpp"

namespace hanse {

// Steps of its own on a client's mini-batches, on the host.
class OwnSteps : public LocalUpdate {
 public:
  bool finds_squares() const final { return true; }

 protected:
  OwnSteps(const ClientOptions& options, const Federation& federation, Model& model,
           std::vector<StateBlock> state, RoundSteps steps)
      : LocalUpdate(std::move(state), std::move(steps)),
        model_(model),
        batches_(options, federation),
        weight_decay_(options.weight_decay),
        trained_(to_index(model.layout().n_trainable())),
        gradient_(to_index(model.n_params())) {}

  // row <- row - rate (scale g + weight_decay at), g in gradient_, and buffers moved. `at` is where
  // g was found; it may be the row.
  void step(std::span<float> row, std::span<const float> at, double rate, double scale = 1) const {
    const auto lr = static_cast<float>(rate), factor = static_cast<float>(scale);
    const auto decay = static_cast<float>(weight_decay_);
    for (std::size_t i = 0; i < trained_; ++i) {
      row[i] -= lr * (factor * gradient_[i] + decay * at[i]);
    }
    model_.move_buffers(row);
  }

  Model& model_;
  BatchStream batches_;
  double weight_decay_;
  std::size_t trained_;          // trainable entries
  std::vector<float> gradient_;  // [P]
};

}  // namespace hanse
