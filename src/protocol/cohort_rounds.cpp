// Rounds whose participants are trained side by side on devices. A cohort is C neighbours in the
// draw, whoever trains it, so that what a client is trained with does not depend on the number of
// ranks; the devices' sums are integers, so that who adds what does not matter either.
#include <algorithm>
#include <cmath>

#include "attempt.hpp"
#include "findings.hpp"
#include "hanse/protocol/federated.hpp"

namespace hanse {

// The plan has the draw's order (draw_participants).
void FederatedTrainer::train_cohorts(Findings& findings) {
  const auto cohort = static_cast<std::size_t>(parts_.cohorts->clients());
  for (std::size_t begin = 0; begin < plan_.size(); begin += cohort) {
    if (plan_[begin].worker != my_worker_) continue;
    attempt([&] { train_cohort(begin, std::min(begin + cohort, plan_.size()), findings); });
  }
}

void FederatedTrainer::train_cohort(std::size_t begin, std::size_t end, Findings& findings) {
  const double start_s = settings_.clock();
  std::vector<ClientTask> tasks;
  std::vector<double> coefficients;
  std::vector<int64_t> positions;
  for (std::size_t entry = begin; entry < end; ++entry) {
    tasks.push_back(
        {.client = plan_[entry].client, .round = completed_ + 1, .seed = settings_.seed});
    coefficients.push_back(plan_[entry].coefficient);
    positions.push_back(plan_[entry].position);
  }
  const auto outcomes = parts_.cohorts->train(tasks);
  const at::Tensor& rows = parts_.cohorts->rows();
  const at::Tensor& theta = parts_.cohorts->model();
  const auto folded = device_updates_ ? device_updates_->keep(rows, theta, positions)
                                      : device_sum_->fold(rows, theta, coefficients);
  const double seconds = (settings_.clock() - start_s) / static_cast<double>(tasks.size());
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    note_training(begin + i, outcomes[i], folded[i], seconds, findings);
  }
}

// Rank 0's model to all ranks and their devices.
void FederatedTrainer::bcast_model() {
  if (parts_.cohorts == nullptr) return parts_.comm.bcast(std::span(theta_), 0);
  parts_.devices->bcast(theta_, parts_.cohorts->model(), 0);
}

// The updates' sum to rank 0.
void FederatedTrainer::reduce_sum() {
  if (!device_sum_) return sum_.reduce(parts_.comm, 0);
  device_sum_->reduce(*parts_.devices, 0);
  if (is_server()) return device_sum_->move_to(sum_);
  device_sum_->clear();
}

int64_t FederatedTrainer::bytes_moved() const {
  return parts_.comm.bytes_moved() + (parts_.devices ? parts_.devices->bytes_moved() : 0);
}

}  // namespace hanse
