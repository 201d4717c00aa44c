// Server states and client rows with known values, for the tests of checkpoints.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "hanse/base/state.hpp"
#include "hanse/client/state_store.hpp"

namespace hanse {

// Distinct for every client and column below 1000, and exact in float32.
inline float client_value(int64_t client, int64_t column) {
  return static_cast<float>(client * 1000 + column % 1000) - 0.5F;
}

// Gives `store` the clients below `clients` with client % size == rank, without every seventh.
inline void fill_clients(ClientStateStore& store, int64_t clients, int rank, int size) {
  for (int64_t client = rank; client < clients; client += size) {
    if (client % 7 == 6) continue;
    const auto row = store.row(client);
    for (int64_t i = 0; i < store.width(); ++i) row[i] = client_value(client, i);
  }
}

// What is wrong with a store that must hold the clients below `clients` with
// client % size == rank, without every seventh; empty when nothing is.
inline std::string clients_wrong(const ClientStateStore& store, int64_t clients, int rank,
                                 int size) {
  for (int64_t client = 0; client < clients; ++client) {
    const bool expected = client % size == rank && client % 7 != 6;
    if (store.contains(client) != expected) return "presence of client " + std::to_string(client);
    if (!expected) continue;
    const auto row = store.existing_row(client);
    for (int64_t i = 0; i < store.width(); ++i) {
      if (row[i] != client_value(client, i)) {
        return "client " + std::to_string(client) + " column " + std::to_string(i);
      }
    }
  }
  return "";
}

// Every type, empty, single and long, extreme values, names with parts, texts with any bytes.
inline State example_state(int64_t round) {
  State state;
  state.put("round", round);
  state.put("sampler/counts", std::vector<int64_t>{std::numeric_limits<int64_t>::min(), -1, 0,
                                                   std::numeric_limits<int64_t>::max()});
  state.put("sampler/none", std::vector<int64_t>{});
  state.put("aggregator/regret", 0.1);
  state.put("aggregator/weights",
            std::vector<double>{-0.0, std::numeric_limits<double>::infinity(),
                                std::numeric_limits<double>::denorm_min(), 1.0 / 3.0});
  state.put("aggregator/none", std::vector<double>{});
  std::vector<float> model(100'003);
  for (std::size_t i = 0; i < model.size(); ++i) {
    model[i] = static_cast<float>(i) / 3.0F + static_cast<float>(round);
  }
  state.put("model", model);
  state.put("empty", std::vector<float>{});
  state.put_text("job", "[run]\nname = größer\n" + std::string("\0\xff tail\0", 8));
  state.put_text("no-text", "");
  state.put_text("long-text", std::string(100'000, 'x') + "y");
  return state;
}

}  // namespace hanse
