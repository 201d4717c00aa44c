// Stops a training and goes on with another one, as a checkpoint would.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/state.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {

// What a checkpoint keeps.
struct Kept {
  State server;
  std::map<int64_t, std::vector<float>> clients;  // states
};

// Both take a Training that is made from a communicator and a job and has a `trainer`.
template <class Training, class Job>
Kept train_and_keep(int ranks, const Job& job, int64_t rounds) {
  Kept kept;
  std::mutex mutex;
  run_threads(ranks, [&](Communicator& comm) {
    Training training(comm, job);
    for (int64_t round = 0; round < rounds; ++round) training.trainer->round(false);
    training.trainer->collect();
    const std::lock_guard lock(mutex);
    if (comm.rank() == 0) training.trainer->save(kept.server);
    auto* states = training.trainer->client_states();
    for (const int64_t client : states ? states->clients() : std::vector<int64_t>()) {
      const auto row = states->existing_row(client);
      EXPECT_TRUE(training.trainer->keeps_state_of(client));
      EXPECT_TRUE(kept.clients.emplace(client, std::vector<float>(row.begin(), row.end())).second);
    }
  });
  return kept;
}

// The model after so many further rounds.
template <class Training, class Job>
std::vector<float> go_on(int ranks, const Job& job, const Kept& kept, int64_t rounds) {
  std::vector<float> result;
  run_threads(ranks, [&](Communicator& comm) {
    Training training(comm, job);
    training.trainer->resume(comm.rank() == 0 ? kept.server : State());
    for (const auto& [client, row] : kept.clients) {
      if (!training.trainer->keeps_state_of(client)) continue;
      std::copy(row.begin(), row.end(), training.trainer->client_states()->row(client).begin());
    }
    for (int64_t round = 0; round < rounds; ++round) training.trainer->round(false);
    training.trainer->collect();
    const auto row = training.trainer->model_row();
    if (comm.rank() == 0) result.assign(row.begin(), row.end());
  });
  return result;
}

}  // namespace hanse
