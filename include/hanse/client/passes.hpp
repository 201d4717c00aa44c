// A client's update as data: passes of gradient steps. The host makes them for one client after the
// other, a cohort on a device for several at once.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "hanse/client/local_update.hpp"
#include "hanse/client/movement.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/model/model.hpp"

namespace hanse {

class HostPasses;
class StoredGradient;

// One way over the client's mini-batches, by steps of
//   w <- w - lr (g + pull + mu (w - anchor)),  g the gradient after slope, clipping and decay
// with the momentum of the options.
struct Pass {
  std::optional<double> mu;  // weight of the proximal term; nothing: there is none
  bool to_received = false;  // whose anchor is the received model; else where the steps start
  bool moves_start = false;  // before() changes the row
  bool pulls = false;        // before() fills the pull
  bool looks_back = false;   // after() needs the row that the steps have left ...
  bool keeps_start = false;  // ... and the one that they started from
};

// Each pass starts from the received model and has the same batches and dropout masks; what the
// last one leaves in the row is what the client sends, and its losses are the client's. A cohort's
// model has no buffers. State: the moments that clients keep, behind them what the update keeps.
// Memory on the host: one batch; a row for the gradient with clipping or PropFair, two with
// accumulation, one a moment; one each for the pull, for the start, and for the received model
// where several passes or a start that moves need it.
class PassUpdate : public LocalUpdate {
 public:
  const std::vector<Pass>& passes() const { return passes_; }
  // What the steps of each pass move, by the options.
  const Movement& movement() const;
  int64_t sent_values(int64_t round, int64_t client, const ParameterLayout& layout) const override;
  // Turns the received model in task.row [P] into the one that the steps start from, and fills
  // `pull` [trainable]; empty where the pass has none.
  virtual void before(std::size_t /*pass*/, const ClientTask& /*task*/, std::span<float> /*pull*/) {
  }
  // With the row that the steps have left in task.row, the one that they started from, where the
  // pass keeps it, and the received one, all [P]. Moves what the task keeps and sends. Did it
  // change the row?
  virtual bool after(std::size_t /*pass*/, const ClientTask& /*task*/,
                     std::span<const float> /*start*/, std::span<const float> /*received*/) {
    return false;
  }

  // What the model is told beside the received row.
  virtual Received beside(const ClientTask& /*task*/) const { return {}; }

  ClientOutcome train(const ClientTask& task) final;
  bool finds_squares() const final { return true; }
  std::unique_ptr<CohortUpdate> cohort_update(CohortTraining& cohorts,
                                              const ParameterLayout& layout) final;
  bool trains_side_by_side() const override;

 protected:
  // Throws InvalidArgument as ClientOptimizer, Augmentation and ClassWeights do. `federation` and
  // `model` must outlive the object.
  PassUpdate(const ClientOptions& options, const Federation& federation, Model& model,
             std::vector<Pass> passes, std::vector<StateBlock> state = {});
  // An update that steps along gradients of its own, on the host alone.
  PassUpdate(const ClientOptions& options, const Federation& federation, Model& model,
             std::vector<Pass> passes, std::unique_ptr<StoredGradient> gradient);
  // An update around another, whose steps it makes and whose state stands in front.
  PassUpdate(const PassUpdate& inner, std::vector<Pass> passes, std::vector<StateBlock> state);

 private:
  std::vector<Pass> passes_;
  std::shared_ptr<HostPasses> host_;
};

}  // namespace hanse
