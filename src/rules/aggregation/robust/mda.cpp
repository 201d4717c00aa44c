#include <algorithm>

#include "rules.hpp"
#include "sets.hpp"

namespace hanse::robust {

namespace {

// A set costs its squared diameter.
class LeastDiameter final : public SetSearch {
 public:
  LeastDiameter(const GramView& gram, std::size_t size)
      : SetSearch(gram.n, size), gram_(gram), widths_{0} {}

 private:
  double add(const Places& chosen) override {
    double width = widths_.back();
    for (const std::size_t other : chosen) {
      width = std::max(width, gram_.squared_distance(other, chosen.back()));
    }
    widths_.push_back(width);
    return width;
  }
  void forget() override { widths_.pop_back(); }
  double cost(const Places&, double bound) override { return bound; }

  GramView gram_;
  std::vector<double> widths_;  // of the first rows of those that are chosen
};

}  // namespace

// Minimum diameter averaging (Rousseeuw 1985; El Mhamdi et al. 2018): the mean of those n - f rows
// whose largest distance is least, the lexicographically first of such sets. Cost: at most
// C(n, f) n^2.
RobustRule mda() {
  return {.name = "mda",
          .summary = "robust: mean of the set of least diameter (El Mhamdi et al. 2018)",
          .bound = {2, 1, "El Mhamdi et al. 2018"},
          .weigh = mean_of_best<LeastDiameter>,
          .lacks = too_many_sets,
          .chooses = true};
}

}  // namespace hanse::robust
