#include <limits>

#include "covariance.hpp"
#include "keys.hpp"
#include "mean_of.hpp"
#include "rules.hpp"

namespace hanse::robust {

namespace {

constexpr int64_t kMostSteps = 10000;

Coefficients covariance_filter(const RobustRound& round, const GramView& gram) {
  const auto n = static_cast<Eigen::Index>(gram.n);
  const auto enough = static_cast<double>(n - 2 * round.f);
  Coefficients best = mean_of(all_places(gram.n), gram.n);
  double least = std::numeric_limits<double>::infinity();
  Eigen::VectorXd c = Eigen::VectorXd::Ones(n);
  for (int64_t step = 0; step < kMostSteps && c.sum() > enough; ++step) {
    const Eigen::VectorXd p = c / c.sum();
    const TopPair top = top_pair(gram, p);
    if (step > 0 && top.value < least) best = vector_of(p);
    least = std::min(least, top.value);
    Eigen::VectorXd t = top.shadows.cwiseAbs2();
    if (round.options.variant != Variant::kReference) t = (c.array() > 0).select(t, 0.0);
    const double most = t.maxCoeff();
    if (!(most > 0)) break;  // nothing is spread any more
    c = c.cwiseProduct((1 - t.array() / most).matrix());
  }
  return best;
}

}  // namespace

// CAF (Allouah et al. 2025, ByzFL): c = 1; while sum c > n - 2f: mu = sum c_i u_i / sum c, lambda
// and v the top pair of sum c_i (u_i - mu)(u_i - mu)^T / sum c, t_i = ((u_i - mu).v)^2,
// c_i <- c_i (1 - t_i / max t). The result is the mu of the least lambda, the first of equals.
// max t is that of the rows with c_i > 0, so that each step takes a row to 0; in the `reference`
// form it is that of all rows, as in ByzFL, where a far row that is gone makes the others fade
// slowly. Cost: at most n eigenvalue problems of size n; `reference` may need more, and ends after
// kMostSteps.
RobustRule caf() {
  return {.name = "caf",
          .summary = "robust: mean without what spreads most, step by step (Allouah et al. 2025)",
          .keys = variant_key(),
          .bound = {2, 1, "Allouah et al. 2025"},
          .weigh = covariance_filter,
          .matrices = 5};
}

}  // namespace hanse::robust
