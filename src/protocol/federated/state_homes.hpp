// Where the states of clients lie, and how they get to the ranks that train the clients.
#pragma once

#include <cstdint>
#include <exception>
#include <span>
#include <unordered_map>
#include <vector>

#include "federated/assignment.hpp"
#include "hanse/client/state_store.hpp"
#include "hanse/comm/communicator.hpp"

namespace hanse {

class StateHomes {
 public:
  // `store` null: clients have no states. Worker w is rank comm.size() - workers + w; `mine` is
  // this rank's, -1 when it hosts nobody.
  StateHomes(Communicator& comm, ClientStateStore* store, int64_t workers, int64_t mine)
      : comm_(comm), store_(store), workers_(workers), mine_(mine) {}

  // Before the first round: states that a checkpoint has brought lie where keeps() said.
  // Collective.
  void learn();
  // Is this rank the one that has, or would have, the client's state?
  bool keeps(int64_t client) const;
  // The worker that has the client's state; -1: it has none yet.
  int64_t of(int64_t client) const;
  bool empty() const { return store_ == nullptr; }
  // Of a state on its way.
  int64_t bytes() const { return store_ ? 4 * store_->width() : 0; }

  // Participants' states go to the ranks that train them, in the plan's order on all ranks, so that
  // no two wait for each other. Collective.
  void move(std::span<const Assignment> plan, std::exception_ptr& failure);

 private:
  void move_one(int64_t client, int64_t from, int64_t to, std::exception_ptr& failure);
  std::span<const float> state_or_zeros(int64_t client);

  Communicator& comm_;
  ClientStateStore* store_;
  int64_t workers_;
  int64_t mine_;
  bool known_ = false;
  std::unordered_map<int64_t, int64_t> homes_;  // client that has a state: its worker
  std::vector<float> zeros_;                    // for a state on its way that this rank lacks
};

}  // namespace hanse
