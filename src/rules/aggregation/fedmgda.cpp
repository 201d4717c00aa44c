#include <algorithm>
#include <cmath>

#include "min_norm.hpp"
#include "hanse/rules/aggregation/multi_objective.hpp"

namespace hanse {

namespace {

class FedMgda final : public Aggregator {
 public:
  FedMgda(double epsilon, const std::string& weights)
      : epsilon_(epsilon), by_samples_(weights == "samples") {}

  AggregatorNeeds needs() const override { return {.sizes = by_samples_, .gram = true}; }

  Mix mix(const RoundReport& report) override {
    const std::size_t k = report.clients.size();
    std::vector<double> lengths(k);  // |u_i|
    std::vector<std::size_t> used;
    for (std::size_t i = 0; i < k; ++i) {
      lengths[i] = std::sqrt(report.gram[i * k + i]);
      if (lengths[i] > 0) used.push_back(i);
    }
    Mix mix{.coefficients = std::vector<double>(k), .response = std::vector<double>(k)};
    mix.direction.dropped = static_cast<int64_t>(k - used.size());
    if (used.empty()) return mix;
    std::vector<double> cosines;
    for (const std::size_t i : used) {
      for (const std::size_t j : used) {
        cosines.push_back(i == j ? 1 : report.gram[i * k + j] / lengths[i] / lengths[j]);
      }
    }
    const MinNorm found = shortest(cosines, centre(report, used));
    for (std::size_t a = 0; a < used.size(); ++a) {
      mix.response[used[a]] = found.weights[a];
      mix.coefficients[used[a]] = found.weights[a] / lengths[used[a]];
    }
    mix.direction.squared_norm = found.squared_norm;
    mix.direction.ridge = found.ridge;  // of a diagonal of ones
    return mix;
  }

 private:
  std::vector<double> centre(const RoundReport& report,
                             const std::vector<std::size_t>& used) const {
    std::vector<double> shares, draw_weights;
    for (const std::size_t i : used) {
      shares.push_back(by_samples_ ? report.lambda[i] : 1);
      draw_weights.push_back(report.draw_weights[i]);
    }
    return estimate(shares, draw_weights, Estimator::kNormalized);
  }

  MinNorm shortest(std::span<const double> cosines, const std::vector<double>& centre) const {
    std::vector<double> lower, upper;
    for (const double middle : centre) {
      lower.push_back(std::max(0.0, middle - epsilon_));
      upper.push_back(std::min(1.0, middle + epsilon_));
    }
    return min_norm(cosines, static_cast<int64_t>(centre.size()), {lower, upper});
  }

  double epsilon_;
  bool by_samples_;
};

}  // namespace

std::unique_ptr<Aggregator> make_fedmgda(double epsilon, const std::string& weights) {
  return std::make_unique<FedMgda>(epsilon, weights);
}

}  // namespace hanse
