#include "rules.hpp"

namespace hanse::robust {

namespace {

// Fedavg's coefficients; the mean of rows counts as its rows do together.
Coefficients fedavg_of_mapped(const RobustRound& round, const GramView&) {
  const RobustOptions& o = round.options;
  std::vector<double> shares, draw_weights;
  for (const std::size_t i : round.kept) {
    const bool samples = o.weights == ClientWeights::kSamples;
    shares.push_back(samples ? round.report.lambda[i] : 1 / static_cast<double>(o.clients));
    draw_weights.push_back(round.report.draw_weights[i]);
  }
  const Coefficients each = estimate(shares, draw_weights, o.estimator);
  if (round.n() == each.size()) return each;
  const std::vector<double> map = round.rows.matrix();
  Coefficients all(round.n());
  for (std::size_t a = 0; a < all.size(); ++a) {
    for (std::size_t i = 0; i < each.size(); ++i) {
      if (map[a * each.size() + i] != 0) all[a] += each[i];
    }
  }
  return all;
}

}  // namespace

// Fedavg of mapped rows (McMahan et al. 2017).
RobustRule mean() {
  return {.name = "fedavg",
          .summary = "",
          .bound = {0, 1, "McMahan et al. 2017"},
          .weigh = fedavg_of_mapped,
          .weighted = true};
}

}  // namespace hanse::robust
