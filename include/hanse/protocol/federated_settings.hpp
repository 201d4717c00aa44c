// A job's settings for a federated trainer and its runner.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hanse/base/clock.hpp"
#include "hanse/comm/comm_options.hpp"
#include "hanse/evaluation/asked_metrics.hpp"
#include "hanse/protocol/server_optimizer.hpp"
#include "hanse/rules/clock/options.hpp"

namespace hanse {

struct FederatedSettings {
  uint64_t seed = 1;  // of clients' draws; the next two: if it is another
  std::optional<uint64_t> model_seed = std::nullopt;
  std::optional<uint64_t> sampler_seed = std::nullopt;
  int64_t max_participants = 1;  // of a round
  ServerOptions server;
  CommOptions comm;
  double round_seconds = 0;         // no participant starts later; 0: no limit
  int64_t loss_batches = 0;         // mini-batches that estimate F_i; 0: all samples
  bool equal_importance = false;    // the sampler's lambda_m: 1/M; else by samples
  bool regret = false;              // measure the sampler's regret: all clients train every round
  bool squares = false;             // the sampler needs the squared losses of samples
  bool trace = false;               // keep the numbers that rules got
  bool participation = false;       // keep lines of participation.csv
  bool timed = false;               // rounds have a turnout that tells what clients work on
  AsyncOptions async = {};          // how updates of older models count
  AskedMetrics asked = {};          // of evaluations
  bool own_models = false;          // evaluate every client's own model, not the shared one
  int64_t state_bytes = 1 << 30;    // for a rank's client states; the rest in a mapped file ...
  std::string state_folder = ".";   // ... in this folder
  const Clock* clock = &kRunClock;  // for a round's times and its limit; outlives the trainer
};

}  // namespace hanse
