// Options of a bandit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hanse/protocol/bandit_setup.hpp"

namespace hanse {

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
  std::optional<double> lambda;     // none: lambda_scale sqrt(N T); 0.1 for dis-lin-ucb
  double lambda_scale = 1e-3;       // C_lambda
  std::optional<double> gamma;      // none: by the kind
  std::optional<double> sqrt_beta;  // none: by sigma, delta and radius
  double sigma = 0.1;
  double delta = 0.1;
  double radius = 1;
  double width = 1;  // factor of the widths: of kernels, and of fed-glb-ucb
  KernelOptions kernel;
  std::string models = "own";         // n-go-ucb: own | shared
  std::string gradients = "running";  // one-go-ucb: running | first
  std::string ucb = "linear";         // linear | network-mean | ellipsoid
  std::string statistics = "auto";    // auto | packed | per-arm
  OracleOptions oracle;
};

}  // namespace hanse
