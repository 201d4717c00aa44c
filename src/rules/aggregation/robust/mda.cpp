#include <algorithm>
#include <limits>

#include "mean_of.hpp"
#include "rules.hpp"
#include "sets.hpp"

namespace hanse::robust {

namespace {

// Searches the sets of `size` rows in lexicographic order, by branch and bound: a set is given up
// as soon as it is as wide as the best one.
class DiameterSearch {
 public:
  DiameterSearch(const GramView& gram, std::size_t size) : gram_(gram), size_(size) {}

  std::vector<std::size_t> search() {
    extend(0, 0);
    return best_;
  }

 private:
  // Adds rows from `next` on to the chosen ones, whose squared diameter is `width`.
  void extend(std::size_t next, double width) {
    if (chosen_.size() == size_) {
      best_ = chosen_;
      least_ = width;
      return;
    }
    for (; next + size_ <= gram_.n + chosen_.size(); ++next) {
      double wider = width;
      for (const std::size_t other : chosen_) {
        wider = std::max(wider, gram_.squared_distance(other, next));
      }
      if (!best_.empty() && !(wider < least_)) continue;
      chosen_.push_back(next);
      extend(next + 1, wider);
      chosen_.pop_back();
    }
  }

  const GramView& gram_;
  std::size_t size_;
  std::vector<std::size_t> chosen_;
  std::vector<std::size_t> best_;
  double least_ = std::numeric_limits<double>::infinity();
};

}  // namespace

// Minimum diameter averaging (Rousseeuw 1985; El Mhamdi et al. 2018): the mean of those n - f rows
// whose largest distance is least, the lexicographically first of such sets. Cost: at most
// C(n, f) n^2.
RobustRule mda() {
  return {.name = "mda",
          .summary = "robust: mean of the set of least diameter (El Mhamdi et al. 2018)",
          .bound = {2, 1, "El Mhamdi et al. 2018"},
          .weigh =
              [](const RobustRound& r, const GramView& gram) {
                const std::size_t size = gram.n - static_cast<std::size_t>(r.f);
                return mean_of(DiameterSearch(gram, size).search(), gram.n);
              },
          .lacks = too_many_sets,
          .chooses = true};
}

}  // namespace hanse::robust
