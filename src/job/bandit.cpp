#include "bind.hpp"
#include "hanse/job/job.hpp"
#include "hanse/rules/bandit/problem.hpp"

namespace hanse {

namespace {

std::vector<std::string> arm_sources() {
  std::vector<std::string> names;
  for (const auto& function : test_functions()) names.push_back(function.name);
  names.insert(names.end(), {"file", "clusters"});
  return names;
}

}  // namespace

void bind_bandit(OptionTable& table, Job& job) {
  BanditOptions& bandit = job.bandit;
  table.add_choice("bandit.arms", bandit.arms, arm_sources(),
                   "a test function at random points; file: bandit.path; clusters: of the samples "
                   "of a csv (data.path, data.label-column), rewarded by class");
  table.add("bandit.count", bandit.count, at_least(2), "arms drawn, or clusters made");
  table.add("bandit.inputs", bandit.inputs, at_least(1), "arguments of ackley and rastrigin");
  table.add("bandit.negate", bandit.negate,
            "the reward is minus the test function, as in the paper; cosine-8 is then minimised, "
            "the others too");
  table.add("bandit.path", bandit.path,
            "arms = file: a csv of a line an arm, features and then its value");
  table.add("bandit.positive", bandit.positive, at_least(0),
            "arms = clusters: the class whose share is an arm's value, in sorted order from 0");
  table.add("bandit.noise", bandit.noise, at_least(0), "deviation of a reward");
  table.add("bandit.horizon", bandit.horizon, at_least(0),
            "rounds that the automatic options are set for; 0: run.rounds of the first start");
  table.add("bandit.sqrt-beta", bandit.sqrt_beta, "auto",
            "radius of the confidence sets; auto: sigma sqrt(log det ratio + 2 log(1/delta)) + "
            "sqrt(lambda) radius");
  table.add("bandit.sigma", bandit.sigma, at_least(0), "sub-Gaussian constant in sqrt-beta");
  table.add("bandit.delta", bandit.delta, Range{0, 1, true, true},
            "chance that a confidence set misses the truth");
  table.add("bandit.radius", bandit.radius, at_least(0), "bound of |w* - w0| in sqrt-beta");
  table.add_choice("bandit.statistics", bandit.statistics, {"auto", "packed", "per-arm"},
                   "what a synchronization sends: a matrix of the features, or two numbers an arm; "
                   "the arms pulled are the same; auto: the smaller");
}

}  // namespace hanse
