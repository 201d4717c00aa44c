// The models that clients would use for themselves.
#include <algorithm>
#include <optional>

#include "hanse/protocol/federated.hpp"

namespace hanse {

// Zeros before the client's first participation. Only on the rank that keeps it.
std::vector<float> FederatedTrainer::state_copy(int64_t client) const {
  std::vector<float> state(static_cast<std::size_t>(parts_.update.state_width()));
  if (states_ && states_->contains(client)) {
    const auto kept = states_->existing_row(client);
    std::copy(kept.begin(), kept.end(), state.begin());
  }
  return state;
}

// What the client starts from in this round. Uses row_. Only on the rank that keeps its state.
std::span<const float> FederatedTrainer::received_model(int64_t client) {
  if (!states_ || !states_->contains(client)) return theta_;
  std::copy(theta_.begin(), theta_.end(), row_.begin());
  parts_.update.receive(states_->existing_row(client), row_);
  return row_;
}

// Turns row_, the shared model, into the client's own; nothing of it stays. A client held out of
// training makes it of the samples it has, as if this were its first round.
void FederatedTrainer::make_own_model(int64_t client) {
  std::vector<float> state = state_copy(client);
  const ClientTask task = task_of(client, state);
  const bool held_out = client >= parts_.federation.clients();
  if (held_out && parts_.federation.train(client).size() == 0) return;
  if (held_out && parts_.update.keeps_own_model()) parts_.update.train(task);
  parts_.update.own_model(task);
  std::fill(control_change_.begin(), control_change_.end(), 0.0F);
}

// As the next round would make them of the shared model, on the rank that keeps the client's state.
// Cost: where clients keep no model, a round of all clients.
std::vector<ClientEvaluation> FederatedTrainer::evaluate_own_models() {
  const Federation& federation = parts_.federation;
  const auto evaluate_row = [&](int64_t client) {
    return evaluate_client(federation, evaluator_.at(row_), client);
  };
  std::vector<int64_t> clients;
  std::vector<ClientEvaluation> mine;
  for (int64_t client = 0; client < federation.clients() + federation.held_out(); ++client) {
    if (!keeps_state_of(client)) continue;
    std::copy(theta_.begin(), theta_.end(), row_.begin());
    std::optional<TestScores> before;
    if (client >= federation.clients()) before = evaluate_row(client).test_scores();
    make_own_model(client);
    clients.push_back(client);
    mine.push_back(evaluate_row(client));
    mine.back().before = before;
  }
  const auto all_clients = parts_.comm.gatherv(std::span<const int64_t>(clients), 0);
  const auto found = parts_.comm.gatherv(std::span<const ClientEvaluation>(mine), 0);
  std::vector<ClientEvaluation> all(found.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    all[static_cast<std::size_t>(all_clients[i])] = found[i];
  }
  return all;
}

}  // namespace hanse
