// Functions whose values are the arms' mean rewards.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hanse {

// Arms of a bandit: what a learner may know of each, and its mean reward.
struct Arms {
  int64_t inputs = 0;
  std::vector<double> points;  // [arms, inputs]
  std::vector<double> values;  // [arms]

  int64_t size() const { return static_cast<int64_t>(values.size()); }
};

// A test function on a box. Its arguments are points of [low, 1]^inputs; where the function's usual
// domain is another box, they are stretched to it.
struct TestFunction {
  std::string name;
  std::string summary;
  int64_t inputs;  // 0: any number
  double low;      // of every coordinate of a point
  double (*value)(std::span<const double> point);
};

// hartmann-6 (with P in units of 1e-4, without which it is 0 on the cube), cosine-8, branin,
// ackley, rastrigin: as their authors print them, so that all but cosine-8 are to be minimised.
const std::vector<TestFunction>& test_functions();

// `arms` uniform points of the function's box; the mean reward is the function, or minus the
// function when `negate` is set. `inputs` counts for functions of any number of arguments. A pure
// function of its arguments: stream (seed, kArms). Throws InvalidArgument for fewer than two arms.
// REQUIRES: a name of test_functions().
Arms draw_arms(const std::string& function, int64_t arms, int64_t inputs, bool negate,
               uint64_t seed);

}  // namespace hanse
