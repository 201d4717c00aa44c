// Options of a bandit.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "hanse/protocol/bandit_setup.hpp"

namespace hanse {

// n-go-ucb: a network a client, fitted on its own first phase, or one, fitted on everybody's.
enum class BanditModels { kOwn, kShared };
constexpr auto choices_of(BanditModels) { return std::array{"own", "shared"}; }

// one-go-ucb: at the estimate behind each synchronization, or at the first phase's network.
enum class GradientsAt { kRunning, kFirst };
constexpr auto choices_of(GradientsAt) { return std::array{"running", "first"}; }

struct BanditOptions {
  std::string kind = "fed-go-ucb";
  ArmSource arms = ArmSource::kHartmann6;
  int64_t count = 50;               // arms drawn, or clusters made
  int64_t inputs = 2;               // of functions with any number of arguments
  bool negate = true;               // the reward is minus the test function
  std::string path;                 // file: a CSV, the value in its last column
  int64_t positive = 0;             // clusters: the class that gives a reward, in sorted order
  double noise = 0.1;               // deviation of a reward
  int64_t horizon = 0;              // T; 0: run.rounds of the first start
  int64_t explore = 0;              // T0; 0: ceil(sqrt(N T))
  std::optional<double> lambda;     // none: lambda_scale sqrt(N T); 0.1 for dis-lin-ucb
  double lambda_scale = 1e-3;       // C_lambda
  std::optional<double> gamma;      // none: by the kind
  std::optional<double> sqrt_beta;  // none: by sigma, delta and radius
  double sigma = 0.1;
  double delta = 0.1;
  double radius = 1;
  double width = 1;  // factor on the widths of kernels and of fed-glb-ucb
  KernelOptions kernel;
  BanditModels models = BanditModels::kOwn;       // n-go-ucb
  GradientsAt gradients = GradientsAt::kRunning;  // one-go-ucb
  UpperBound ucb = UpperBound::kLinear;
  AskedStatistics statistics = AskedStatistics::kAuto;
  OracleOptions oracle;
};

}  // namespace hanse
