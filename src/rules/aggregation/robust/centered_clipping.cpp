#include "distances.hpp"
#include "keys.hpp"
#include "rules.hpp"

namespace hanse::robust {

namespace {

Coefficients clipped_steps(const RobustRound& round, const GramView& gram) {
  const double radius = round.options.radius;
  const auto n = static_cast<Eigen::Index>(round.n());
  Eigen::VectorXd c = Eigen::VectorXd::Zero(static_cast<Eigen::Index>(gram.n));
  if (c.size() > n) c[n] = 1;
  for (int64_t i = 0; i < round.options.iterations; ++i) {
    const Eigen::VectorXd distances = distances_to(gram, c, n);
    const Eigen::VectorXd t = distances.unaryExpr([=](double distance) {
      return (distance > radius ? radius / distance : 1) / static_cast<double>(n);
    });
    const bool all = distances.maxCoeff() <= radius;  // then nothing of v is left
    c *= all ? 0 : 1 - t.sum();
    c.head(n) += t;
  }
  return vector_of(c);
}

}  // namespace

// Centered clipping (Karimireddy, He and Jaggi 2021): v = m, the last step, then `iterations` times
//   v <- v + (1/n) sum_i (u_i - v) min(1, radius / |u_i - v|).
// m is the row behind those of the participants, and without it m = 0. With
// t_i = min(1, radius / |u_i - v|) / n the coefficients are c <- c (1 - sum t) + t: their sum is 1
// with m and at most 1 without. Cost: O(iterations n^2).
RobustRule centered_clipping() {
  return {.name = "centered-clipping",
          .summary =
              "robust: the last step and clipped differences from it (Karimireddy et al. "
              "2021)",
          .keys = {with_default(iterations_key(), &Options::iterations, 1),
                   with_default(key()("radius", &Options::radius, above(0),
                                      "longest difference that counts"),
                                &Options::radius, 100)},
          .bound = {2, 1, "Karimireddy et al. 2021"},
          .weigh = clipped_steps,
          .clips = true,
          .extra_row = ExtraRow::kLastStep};
}

}  // namespace hanse::robust
