// Options of the server: [server] of a job.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "hanse/base/rule_file.hpp"

namespace hanse {

// Does rank 0 train clients beside serving? auto: when it runs alone or on one host.
enum class ServerRole { kAuto, kDedicated, kShared };
constexpr auto choices_of(ServerRole) { return std::array{"auto", "dedicated", "shared"}; }

struct ServerOptions {
  std::string optimizer = "sgd";  // sgd | momentum | adam | yogi | adagrad
  double lr = 1;                  // step size; 1 with sgd is plain averaging
  double lr_decay = 1;            // factor on lr ...
  int64_t lr_decay_every = 1;     // ... every so many rounds; above 1 it grows
  double beta = 0.9;              // share of the velocity (the first moment) that stays
  double beta2 = 0.99;            // adam, yogi: share of the second moment that stays
  double tau = 1e-3;              // adam, yogi, adagrad: adaptivity; added to sqrt(v)
  bool extrapolate = false;              // FedExP: extrapolation.hpp
  double extrapolate_epsilon = 1e-3;     // there
  bool average = false;           // keep the mean of the models behind all rounds, too
  RuleFile own;                   // a kind of the user's own (kinds/own_rules.hpp)
  ServerRole role = ServerRole::kAuto;
};

}  // namespace hanse
