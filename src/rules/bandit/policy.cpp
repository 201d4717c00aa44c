#include "hanse/rules/bandit/policy.hpp"

#include <algorithm>
#include <cmath>

namespace hanse {

int64_t best_arm(std::span<const double> bounds) {
  constexpr double kRounding = 1e-12;
  double most = bounds.front();
  double size = 0;
  for (const double bound : bounds) {
    most = std::max(most, bound);
    size = std::max(size, std::abs(bound));
  }
  const double enough = most - kRounding * size;
  return std::find_if(bounds.begin(), bounds.end(), [&](double b) { return b >= enough; }) -
         bounds.begin();
}

void BanditClient::play(const Turn& turn, double reward) {
  if (!turn.triggers) learn(turn.arm, reward);
  own_.arms.push_back(turn.arm);
  own_.rewards.push_back(reward);
}

void BanditClient::replay(const Pulls& own) {
  for (std::size_t i = 0; i < own.arms.size(); ++i) {
    play({.arm = own.arms[i]}, own.rewards[i]);
  }
}

}  // namespace hanse
