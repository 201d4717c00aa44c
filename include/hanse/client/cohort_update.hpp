// A LocalUpdate for a cohort on a device, in place of one client after the other.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

#include "hanse/client/cohort_training.hpp"
#include "hanse/client/local_update.hpp"

namespace hanse {

// The model [P] that each client of a cohort has received: one for all, which is the cohort's
// theta(), too, or its own.
class ReceivedModels {
 public:
  template <class Row>
  requires std::convertible_to<const Row&, std::span<const float>> ReceivedModels(const Row& one)
      : one_(one) {}
  ReceivedModels(std::span<const std::span<const float>> each) : each_(each) {}

  std::span<const float> operator[](std::size_t i) const { return differ() ? each_[i] : one_; }
  bool differ() const { return !each_.empty(); }
  std::span<const std::span<const float>> each() const { return each_; }  // empty: one for all

 private:
  std::span<const float> one_ = {};
  std::span<const std::span<const float>> each_ = {};
};

class CohortUpdate {
 public:
  virtual ~CohortUpdate() = default;
  // Does it read `received` where that is one for all? Otherwise the device alone has to have it.
  virtual bool reads_received() const = 0;
  // Acts as update.train() for each task, from `received`, which must stay until finish(). It
  // ignores the tasks' rows: rows stay on the device, and so do the losses, without which the
  // outcomes are not finished. REQUIRES: 1 to C tasks.
  virtual std::vector<ClientOutcome> train(std::span<const ClientTask> tasks,
                                           const ReceivedModels& received) = 0;
  // Completes those outcomes by Cohort::losses() [C], which come with other data that the host
  // waits for. `received` as before; the cohort's rows stay.
  virtual void finish(std::span<const double> losses, const ReceivedModels& received,
                      std::span<ClientOutcome> outcomes) = 0;
  // Origin of the cohort's rows: Cohort::received(), or undefined where they are the updates.
  virtual const at::Tensor& origin() = 0;
};

}  // namespace hanse
