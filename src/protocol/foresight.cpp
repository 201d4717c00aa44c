// What every client would report in a round, before anybody takes part.
#include <cmath>

#include <fmt/format.h>

#include "findings.hpp"
#include "hanse/base/error.hpp"
#include "hanse/protocol/federated.hpp"

namespace hanse {

// All clients train from the model as they would in this round, and leave no trace: the same
// streams, a copy of their state. Rank 0 learns a_m of each. Cost: a round of all clients, and a
// reduction of M numbers.
void FederatedTrainer::foresee() {
  share_model();
  std::copy(theta_.begin(), theta_.end(), row_.begin());
  std::vector<double> squared(static_cast<std::size_t>(parts_.federation.clients()), kUnknown);
  for (int64_t client = my_worker_; my_worker_ >= 0 && client < parts_.federation.clients();
       client += workers_) {
    auto& found = squared[static_cast<std::size_t>(client)];
    found = 0;  // stands in after a failure; the round is dropped then
    attempt([&] { found = squared_step(client); });
  }
  parts_.comm.reduce(std::span(squared), ReduceOp::kMax, 0);
  if (!is_server()) return;
  for (std::size_t client = 0; client < squared.size(); ++client) {
    const auto id = static_cast<int64_t>(client);
    squared[client] = feedback(id, participation_->importance(id), squared[client]);
  }
  attempt([&] { participation_->foresee(std::move(squared)); });
}

// |theta_i - theta|^2 of a client's training, without buffers.
double FederatedTrainer::squared_step(int64_t client) {
  std::vector<float> state = state_copy(client);
  const ClientOutcome outcome = parts_.update.train(task_of(client, state));
  double sum = 0;
  for (std::size_t i = 0; i < parameters_of(row_).size(); ++i) {
    const double origin = parts_.update.tells_update() ? 0 : static_cast<double>(theta_[i]);
    const double moved = static_cast<double>(row_[i]) - origin;
    sum += moved * moved;
  }
  forget_training();
  if (!std::isfinite(sum) || !std::isfinite(outcome.loss)) {
    throw TrainingError(
        fmt::format("an update of norm {} and loss {}", std::sqrt(sum), outcome.loss), client,
        completed_ + 1, "a smaller client.lr or client.clip may help");
  }
  return sum;
}

}  // namespace hanse
