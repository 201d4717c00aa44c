// SGD of several clients side by side on one device.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hanse/base/random.hpp"
#include "hanse/client/local_update.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/model/cohort.hpp"

namespace hanse {

class BatchStream;

// What make_sgd() does with one client after the other, for up to C at once, on the same
// mini-batches: rows and losses agree with its within float tolerance. A client with fewer steps
// than others of its cohort, and an empty place, rest in the steps of the others. The result
// depends on the tasks, their places and the number of places, but not on who computes it.
//
// Memory in the host: C mini-batches, and those of make_sgd's streams. Cost: as many steps as the
// client with the most of them takes, each for C clients.
class CohortTraining {
 public:
  // `options.kind` is sgd or prox; PropFair and pooled samples are not for cohorts. `federation`
  // must outlive the object. Throws InvalidArgument as make_cohort() does.
  CohortTraining(const ClientOptions& options, const Federation& federation,
                 const ModelOptions& model, const std::string& device, int64_t clients);
  ~CohortTraining();

  int64_t clients() const { return clients_; }  // C
  const std::string& device() const { return device_; }

  // [P] on the device: the received model.
  at::Tensor& model() { return cohort_->theta(); }
  const at::Tensor& model() const { return cohort_->theta(); }

  // Trains clients of one round from model(); of a task it reads client, round and seed. An outcome
  // for each task. REQUIRES: 1 to C tasks.
  std::vector<ClientOutcome> train(std::span<const ClientTask> tasks);

  // [C, P] on the device: the trained models, in the order of the tasks; behind them model().
  const at::Tensor& rows() const { return cohort_->rows(); }

 private:
  void gather(std::size_t place);

  ClientOptions options_;
  std::string device_;
  int64_t clients_;  // C
  int64_t batch_;    // B
  int64_t values_;   // of a sample
  bool has_classes_;
  std::unique_ptr<Cohort> cohort_;
  std::vector<BatchStream> streams_;  // [C]
  std::vector<RandomStream> noise_;   // [C]
  std::vector<int64_t> steps_left_;   // [C]
  std::vector<int64_t> counts_;       // [C] samples of the step
  std::vector<float> features_;       // [C, B, values]
  std::vector<int32_t> labels_;       // [C, B] or empty
  std::vector<float> targets_;        // [C, B] or empty
};

}  // namespace hanse
