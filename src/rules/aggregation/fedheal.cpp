#include "hanse/rules/aggregation/fedheal.hpp"

#include <numeric>
#include <vector>

#include "hanse/base/index.hpp"

namespace hanse {

namespace {

class FedHeal final : public Aggregator {
 public:
  FedHeal(double threshold, double beta, int64_t clients)
      : threshold_(threshold),
        beta_(beta),
        distances_(to_index(clients)),
        deltas_(to_index(clients)),
        weights_(to_index(clients), 1 / static_cast<double>(clients)) {}

  AggregatorNeeds needs() const override { return {.sign_share = threshold_}; }

  Mix mix(const RoundReport& report) override {
    for (std::size_t i = 0; i < report.clients.size(); ++i) {
      distances_[to_index(report.clients[i])] = report.distances[i];
    }
    // A client that never took part has 0.
    const double all = std::accumulate(distances_.begin(), distances_.end(), 0.0);
    Mix mix;
    double total = 0;
    for (const int64_t client : report.clients) {
      const std::size_t i = to_index(client);
      const double share = all > 0 ? distances_[i] / all : 0;
      deltas_[i] = (1 - beta_) * deltas_[i] + beta_ * share;
      weights_[i] += deltas_[i];
      mix.coefficients.push_back(weights_[i]);
      total += weights_[i];
    }
    for (double& coefficient : mix.coefficients) coefficient /= total;
    return mix;
  }

  std::vector<double> decision() const override {
    const double total = std::accumulate(weights_.begin(), weights_.end(), 0.0);
    std::vector<double> shares = weights_;
    for (double& share : shares) share /= total;
    return shares;
  }

 protected:
  void visit(StateFields& fields) override {
    fields.fixed("distances", distances_);
    fields.fixed("deltas", deltas_);
    fields.fixed("weights", weights_);
  }

 private:
  double threshold_;
  double beta_;
  std::vector<double> distances_;  // [M] the last d
  std::vector<double> deltas_;     // [M]
  std::vector<double> weights_;    // [M] w
};

}  // namespace

std::unique_ptr<Aggregator> make_fedheal(double threshold, double beta, int64_t clients) {
  return std::make_unique<FedHeal>(threshold, beta, clients);
}

}  // namespace hanse
