#include "distances.hpp"
#include "keys.hpp"
#include "rules.hpp"

namespace hanse::robust {

namespace {

Coefficients weiszfeld(const RobustRound& round, const GramView& gram) {
  const auto n = static_cast<Eigen::Index>(gram.n);
  Eigen::VectorXd w = Eigen::VectorXd::Zero(n);
  for (int64_t i = 0; i < round.options.iterations; ++i) {
    w = distances_to(gram, w, n).cwiseMax(round.options.smoothing).cwiseInverse();
    w /= w.sum();
  }
  return vector_of(w);
}

}  // namespace

// The geometric median by Weiszfeld's smoothed iteration (RFA, Pillutla et al. 2022): z = 0, then
// `iterations` times
//   beta_i = max(|u_i - z|, smoothing),  w_i = (1/beta_i) / sum_j (1/beta_j),  z = sum w_i u_i.
// ByzFL starts from 0 too, with 3 iterations and a smoothing of 0.1. Cost: O(iterations n^2).
RobustRule geometric_median() {
  return {.name = "geometric-median",
          .summary = "robust: the point of least distances (RFA, Pillutla et al. 2022)",
          .keys = {iterations_key(), key()("smoothing", &Options::smoothing, above(0),
                                           "distances below this one count as it")},
          .bound = {2, 1, "Pillutla et al. 2022"},
          .weigh = weiszfeld};
}

}  // namespace hanse::robust
