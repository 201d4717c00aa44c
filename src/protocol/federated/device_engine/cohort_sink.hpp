// The sink of devices: updates of cohorts, which stay there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "federated/update_sink.hpp"
#include "hanse/client/cohort_training.hpp"
#include "hanse/model/device_server.hpp"
#include "hanse/model/device_sums.hpp"

namespace hanse {

// Which model stands on a rank's device: the received one, or another that trains or is evaluated;
// and whether the host's memory has the received one, too.
class ModelOnDevice {
 public:
  // `cohorts` must outlive it.
  explicit ModelOnDevice(CohortTraining& cohorts) : cohorts_(cohorts) {}

  // Notes that the device has got `model` [P], which must stay where it is; `by_step`: by a step on
  // the device, behind which `model` stays until bring().
  void has_received(std::span<float> model, bool by_step = false) {
    received_ = model;
    has_other_ = false;
    is_ahead_ = by_step;
  }
  // Brings the received model to the host's memory, unless it is there. Waits for the device.
  void bring() {
    if (is_ahead_) cohorts_.cohort().take_theta(received_);
    is_ahead_ = false;
  }
  // Brings `row` [P] to the device.
  Evaluator& at(std::span<const float> row) {
    const bool is_other = row.data() != received_.data();
    if (is_other) bring();
    if (is_other || has_other_) cohorts_.cohort().put_theta(row);
    has_other_ = is_other;
    return cohorts_;
  }

 private:
  CohortTraining& cohorts_;
  std::span<float> received_;
  bool has_other_ = false;
  bool is_ahead_ = false;
};

class CohortSink final : public UpdateSink, private KeptUpdates {
 public:
  // All arguments must outlive it; `devices` is how the ranks' devices talk.
  CohortSink(const RunnerParts& parts, const FederatedSettings& settings, CohortTraining& cohorts,
             ModelOnDevice& model, DeviceCommunicator& devices);

  // Takes the first rows of the cohort, one for each of `coefficients` and `positions` in the draw,
  // less `origin` [P], or [C, P]; undefined: they are the updates themselves. The results come with
  // the cohort's losses, which `losses` [C] gets, in one transfer.
  std::vector<FoldResult> take(const at::Tensor& origin, std::span<const double> coefficients,
                               std::span<const int64_t> positions, std::span<double> losses);
  // Measures the first `rows` rows, which count nothing in the sum.
  std::vector<FoldResult> measure(const at::Tensor& origin, std::size_t rows,
                                  std::span<double> losses);

  void scale(double factor) override { sum_->scale(factor); }
  KeptUpdates* kept() override { return kept_ ? this : nullptr; }
  ExchangeReport hand_over(std::span<float> model, const SumStep& step) override;

  DeviceServer& server() { return *server_; }

 private:
  std::vector<double> gram(int64_t k, std::span<const int64_t>, ClientStateStore*) override {
    return kept_->gram(k);
  }
  int64_t combine(std::span<const double> coefficients, int64_t k) override {
    return kept_->fold(coefficients, k, *sum_);
  }
  void drop() override { kept_->clear(); }

  std::vector<FoldResult> fold(const at::Tensor& origin, std::span<const double> coefficients,
                               std::span<double> losses);
  bool step_on_devices(std::span<float> model, const SumStep& step, double& seconds);
  Along losses_to(std::span<double> losses) {
    return {.from = &cohorts_.cohort().losses(), .to = losses};
  }

  Communicator& comm_;
  CohortTraining& cohorts_;
  ModelOnDevice& model_;
  DeviceCommunicator& devices_;
  int64_t trained_, sum_bytes_;
  std::unique_ptr<DeviceSum> sum_;
  std::unique_ptr<DeviceUpdates> kept_;  // null: updates are added as they come
  std::unique_ptr<DeviceServer> server_;
  std::vector<float> step_;  // [P] the mixed update, rank 0
};

}  // namespace hanse
