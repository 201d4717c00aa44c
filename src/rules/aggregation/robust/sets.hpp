// Rules that look for the best set of rows.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "hanse/rules/aggregation/robust_rule.hpp"
#include "mean_of.hpp"

namespace hanse::robust {

// Sets of n - f rows that a rule may look at.
inline constexpr int64_t kMostSets = 1000000;

// C(n, k), at most `most`. REQUIRES: 0 <= k <= n.
int64_t combinations(int64_t n, int64_t k, int64_t most);

// Searches the sets of `size` of n rows for the one of the least cost, the first of equals, in
// lexicographic order and by branch and bound: a set is given up as soon as no set with its rows
// costs less than the best one.
class SetSearch {
 public:
  using Places = std::vector<std::size_t>;

  SetSearch(std::size_t n, std::size_t size) : n_(n), size_(size) {}
  virtual ~SetSearch() = default;
  // Cost: at most C(n, size) sets.
  Places best();

 protected:
  std::size_t size() const { return size_; }

 private:
  // A bound from below of what sets cost that have the `chosen` rows, the last of which is new.
  virtual double add(const Places& chosen) = 0;
  virtual void forget() = 0;  // that one again
  // What a whole set costs, whose bound is this.
  virtual double cost(const Places& chosen, double bound) = 0;

  void extend(std::size_t next, double bound);

  std::size_t n_;
  std::size_t size_;
  Places chosen_;
  Places best_;
  double least_ = std::numeric_limits<double>::infinity();
};

// RobustRule::weigh: the mean of the best set of n - f rows, by Search(gram, size).
template <class Search>
Coefficients mean_of_best(const RobustRound& round, const GramView& gram) {
  const std::size_t size = gram.n - static_cast<std::size_t>(round.f);
  return mean_of(Search(gram, size).best(), gram.n);
}

// RobustRule::lacks: n rows have more than kMostSets sets without f of them.
std::optional<InvalidArgument> too_many_sets(const RobustOptions& options, int64_t n, int64_t f);

}  // namespace hanse::robust
