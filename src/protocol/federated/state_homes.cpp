#include "federated/state_homes.hpp"

#include "attempt.hpp"

namespace hanse {

int64_t StateHomes::of(int64_t client) const {
  const auto found = homes_.find(client);
  return found != homes_.end() ? found->second : -1;
}

bool StateHomes::keeps(int64_t client) const {
  if (mine_ < 0) return false;
  const int64_t home = of(client);
  return mine_ == (home < 0 ? client % workers_ : home);
}

void StateHomes::learn() {
  if (!store_ || known_) return;
  known_ = true;
  const auto mine = store_->clients();
  auto all = comm_.gatherv(std::span<const int64_t>(mine), 0);
  auto count = static_cast<int64_t>(all.size());
  comm_.bcast(std::span(&count, 1), 0);
  all.resize(static_cast<std::size_t>(count));
  comm_.bcast(std::span(all), 0);
  for (const int64_t client : all) homes_[client] = client % workers_;
}

void StateHomes::move(std::span<const Assignment> plan, std::exception_ptr& failure) {
  if (!store_) return;
  for (const Assignment& entry : plan) {
    const auto home = homes_.emplace(entry.client, entry.worker).first;
    if (home->second != entry.worker) move_one(entry.client, home->second, entry.worker, failure);
    home->second = entry.worker;
  }
}

void StateHomes::move_one(int64_t client, int64_t from, int64_t to, std::exception_ptr& failure) {
  const int64_t first_rank = comm_.size() - workers_;
  if (mine_ == from) {
    comm_.send(state_or_zeros(client), static_cast<int>(first_rank + to));
    if (store_->contains(client)) store_->drop(client);
  } else if (mine_ == to) {
    std::span<float> row;
    attempt(failure, [&] { row = store_->row(client); });
    std::vector<float> lost(row.empty() ? static_cast<std::size_t>(store_->width()) : 0);
    comm_.recv(row.empty() ? std::span(lost) : row, static_cast<int>(first_rank + from));
  }
}

// Zeros stand for a state that was not made because its rank has failed.
std::span<const float> StateHomes::state_or_zeros(int64_t client) {
  if (store_->contains(client)) return store_->existing_row(client);
  zeros_.assign(static_cast<std::size_t>(store_->width()), 0.0F);
  return zeros_;
}

}  // namespace hanse
