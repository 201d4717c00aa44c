// A client's round in parts, for whoever makes the steps of several clients at once.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "hanse/client/local_update.hpp"

namespace hanse {

// One way over the client's mini-batches, by steps of
//   w <- w - lr (g + mu (w - anchor) + pull),  g the gradient after slope, clipping and decay
// with the momentum of the options.
struct CohortPass {
  double mu = 0;             // weight of the proximal term
  bool to_received = false;  // whose anchor is the received model; else where the steps start
  bool moves_start = false;  // before() changes the row
  bool pulls = false;        // before() fills the pull
  bool looks_back = false;   // after() needs the row that the steps have left
};

// LocalUpdate::train() without its steps, which someone else makes: CohortPasses. Each pass starts
// from the received model and has the same batches and dropout masks; what the last one leaves in
// the row is what the client sends, and its losses are the client's. The model has no buffers.
class SideBySide {
 public:
  virtual ~SideBySide() = default;
  virtual std::vector<CohortPass> passes() const = 0;
  // Turns the received model in task.row [P] into the one that the steps start from, and fills
  // `pull` [P]; empty where the pass has none.
  virtual void before(std::size_t /*pass*/, const ClientTask& /*task*/, std::span<float> /*pull*/) {
  }
  // With the row that the steps have left in task.row, the one that they started from and the
  // received one, all [P]. Moves what the task keeps and sends. Did it change the row?
  virtual bool after(std::size_t /*pass*/, const ClientTask& /*task*/,
                     std::span<const float> /*start*/, std::span<const float> /*received*/) {
    return false;
  }
};

}  // namespace hanse
