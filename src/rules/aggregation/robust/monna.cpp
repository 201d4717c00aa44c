#include "keys.hpp"
#include "mean_of.hpp"
#include "rules.hpp"

namespace hanse::robust {

// MoNNA (Farhadkhani et al. 2023): the mean of the n - f rows nearest to that of a participant that
// is trusted, itself among them. Cost: O(n log n).
RobustRule monna() {
  return {.name = "monna",
          .summary =
              "robust: mean of the updates nearest to a trusted one (Farhadkhani et al. "
              "2023)",
          .keys = key()("pivot", &Options::pivot, at_least(0),
                        "client that is trusted; it has to take part in every round"),
          .bound = {2, 1, "Farhadkhani et al. 2023"},
          .weigh =
              [](const RobustRound& r, const GramView& gram) {
                const std::size_t size = gram.n - static_cast<std::size_t>(r.f);
                return mean_of(nearest_places(gram, r.pivot(), size), gram.n);
              },
          .trusts = true};
}

}  // namespace hanse::robust
