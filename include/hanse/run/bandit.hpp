// The options of a bandit, and the bandits that they make.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "hanse/base/options.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/protocol/bandit.hpp"

namespace hanse {

struct Job;

struct BanditOptions {
  std::string kind = "fed-go-ucb";
  std::string arms = "hartmann-6";  // a test function, file, or clusters
  int64_t count = 50;               // arms drawn, or clusters made
  int64_t inputs = 2;               // of functions of any number of arguments
  bool negate = true;               // the reward is minus the test function
  std::string path;                 // file: a CSV, the value in its last column
  int64_t positive = 0;             // clusters: the class that gives a reward, in sorted order
  double noise = 0.1;               // deviation of a reward
  int64_t horizon = 0;              // T; 0: run.rounds of the first start
  int64_t explore = 0;              // T0; 0: ceil(sqrt(N T))
  std::string lambda = "auto";      // auto: lambda_scale sqrt(N T); 0.1 for dis-lin-ucb
  double lambda_scale = 1e-3;       // C_lambda
  std::string gamma = "auto";       // auto: 1; T / (d log(N T)) for dis-lin-ucb
  std::string sqrt_beta = "auto";   // auto: by sigma, delta and radius
  double sigma = 0.1;
  double delta = 0.1;
  double radius = 1;
  std::string ucb = "linear";       // linear | network-mean | ellipsoid
  std::string statistics = "auto";  // auto | packed | per-arm
  OracleOptions oracle;
};

void bind_bandit(OptionTable& table, BanditOptions& bandit);

// What makes a kind of bandit of the others' parts.
struct BanditRule {
  UcbOptions ucb;
  bool network = true;  // fits a network first; else features are the arms' points
};

// The number of uniform pulls. Throws InvalidArgument when there are more than N T.
int64_t exploration_of(const BanditOptions& options, int64_t clients);

// Checks what can be checked without data. Throws InvalidArgument.
void check_bandit(const Job& job);

// Collective; run.repeats bandits, of seeds run.seed, run.seed + 1, ... Rank 0 reads the files.
// Throws AgreedError.
std::unique_ptr<BanditProtocol> make_bandit(const Job& job, Communicator& comm);

// "hartmann: fed-go-ucb on 50 arms, ..." for the notice at the start.
std::string bandit_text(const Job& job, const BanditProtocol& bandit);

}  // namespace hanse
