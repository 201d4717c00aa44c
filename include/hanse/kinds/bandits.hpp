// Makes bandits' rules by the names of a job.
#pragma once

#include <cstdint>
#include <string>

#include "hanse/protocol/bandit_setup.hpp"

namespace hanse {

struct BanditOptions;
struct Job;

// The parts that differ between kinds of bandits.
struct BanditRule {
  UcbOptions ucb;
  RewardModel model = RewardModel::kNetwork;
  bool own_models = false;  // BanditSetup's, as the next
  bool running = false;
  KernelOptions kernel = {};
};

// Makes the rule for N clients, horizon T and arms of `inputs` numbers each.
BanditRule make_bandit_rule(const BanditOptions& options, int64_t clients, int64_t horizon,
                            int64_t inputs);

// Throws InvalidArgument that names the arm when a declared value is no mean reward of the kind: a
// logistic function's lie in [0, 1].
void check_values(const BanditRule& rule, const Arms& arms, const std::string& where);

// The number of uniform pulls. Throws InvalidArgument when there are more than N T.
int64_t exploration_of(const BanditOptions& options, int64_t clients);

// Checks what can be checked without data. Throws InvalidArgument.
void check_bandit(const Job& job);

// Are the arms read from a file?
bool reads_arms(const BanditOptions& options);

}  // namespace hanse
