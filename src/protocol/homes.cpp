// Where the states of clients lie, and how they get to the ranks that train the clients.
#include <algorithm>

#include "attempt.hpp"
#include "hanse/protocol/federated.hpp"

namespace hanse {

int64_t FederatedTrainer::home_of(int64_t client) const {
  const auto found = homes_.find(client);
  return found != homes_.end() ? found->second : client % workers_;
}

bool FederatedTrainer::keeps_state_of(int64_t client) const {
  return my_worker_ >= 0 && home_of(client) == my_worker_;
}

// Before the first round: states that a checkpoint has brought lie where keeps_state_of() said.
void FederatedTrainer::find_homes() {
  if (!states_ || homes_are_known_) return;
  homes_are_known_ = true;
  const auto mine = states_->clients();
  auto all = parts_.comm.gatherv(std::span<const int64_t>(mine), 0);
  auto count = static_cast<int64_t>(all.size());
  parts_.comm.bcast(std::span(&count, 1), 0);
  all.resize(static_cast<std::size_t>(count));
  parts_.comm.bcast(std::span(all), 0);
  for (const int64_t client : all) homes_[client] = client % workers_;
}

// Rank 0: what it takes to bring a state from one rank to another, by the last round's sum.
double FederatedTrainer::move_seconds() const {
  return static_cast<double>(4 * parts_.update.state_width()) * byte_s_;
}

// Participants' states go to the ranks that train them; in the plan's order on all ranks, so that
// no two wait for each other.
void FederatedTrainer::move_states() {
  if (!states_) return;
  for (const Assignment& entry : plan_) {
    const auto home = homes_.emplace(entry.client, entry.worker).first;
    if (home->second != entry.worker) move_state(entry.client, home->second, entry.worker);
    home->second = entry.worker;
  }
}

void FederatedTrainer::move_state(int64_t client, int64_t from, int64_t to) {
  const int64_t first_rank = parts_.comm.size() - workers_;
  if (my_worker_ == from) {
    parts_.comm.send(state_or_zeros(client), static_cast<int>(first_rank + to));
    if (states_->contains(client)) states_->drop(client);
  } else if (my_worker_ == to) {
    std::span<float> row;
    attempt([&] { row = states_->row(client); });
    std::vector<float> lost(row.empty() ? static_cast<std::size_t>(states_->width()) : 0);
    parts_.comm.recv(row.empty() ? std::span(lost) : row, static_cast<int>(first_rank + from));
  }
}

// Zeros stand for a state that was not made because its rank has failed.
std::span<const float> FederatedTrainer::state_or_zeros(int64_t client) {
  if (states_->contains(client)) return states_->existing_row(client);
  state_buffer_.assign(static_cast<std::size_t>(states_->width()), 0.0F);
  return state_buffer_;
}

}  // namespace hanse
