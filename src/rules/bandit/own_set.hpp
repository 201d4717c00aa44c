// The confidence set of a client between synchronizations: the one that all have in common, and
// from its first own pull on a copy that knows its pulls.
#pragma once

#include <cmath>
#include <memory>

#include "hanse/base/index.hpp"
#include "hanse/rules/bandit/confidence.hpp"

namespace hanse {

class OwnSet {
 public:
  // `common` must outlive the object.
  explicit OwnSet(const ConfidenceSet& common) : common_(&common) {}

  const ConfidenceSet& get() const { return own_ ? *own_ : *common_; }

  // The growth of log det Sigma since the last synchronization, were the arm pulled too.
  double growth_with(int64_t arm) const {
    return growth_ + std::log1p(get().squared_widths()[to_index(arm)]);
  }
  // Takes in a pull of the arm. Returns the set that knows it.
  ConfidenceSet& observe(int64_t arm, double reward) {
    growth_ = growth_with(arm);
    if (!own_) own_ = std::make_unique<ConfidenceSet>(*common_);
    own_->observe(arm, reward);
    return *own_;
  }

 private:
  const ConfidenceSet* common_;
  std::unique_ptr<ConfidenceSet> own_;  // null before the first own pull
  double growth_ = 0;
};

}  // namespace hanse
