#include <cmath>

#include "keys.hpp"
#include "rules.hpp"

namespace hanse::robust {

namespace {

Coefficients trusted_mean(const RobustRound&, const GramView& gram) {
  const std::size_t root = gram.n - 1;
  Coefficients c(gram.n);
  double sum = 0;
  for (std::size_t i = 0; i < root; ++i) {
    if (!(gram(i, root) > 0)) continue;
    const double length = std::sqrt(gram(i, i));
    const double trust = gram(i, root) / (length * std::sqrt(gram(root, root)));
    c[i] = trust * std::sqrt(gram(root, root)) / length;
    sum += trust;
  }
  for (double& x : c) x = sum > 0 ? x / sum : 0;
  return c;
}

}  // namespace

// FLTrust (Cao et al. 2021): the last row is u_0, the server's own update on data that it trusts;
// with TS_i = max(0, cos(u_i, u_0)) the step is sum TS_i (|u_0| / |u_i|) u_i / sum TS_i. The last
// coefficient is 0; all are 0 where no row has a positive product with u_0. Their sum is not 1.
// Cost: O(n).
RobustRule fltrust() {
  return {.name = "fltrust",
          .summary = "robust: by the cosine to the server's own update (Cao et al. 2021)",
          .keys = key()("root", &Options::root, at_least(0),
                        "which of the clients kept out of training (federation.held-out) has the "
                        "samples that the server trusts and trains on: 0 is the first of them"),
          .bound = {0, 1, "Cao et al. 2021"},
          .weigh = trusted_mean,
          .extra_row = ExtraRow::kServer};
}

}  // namespace hanse::robust
