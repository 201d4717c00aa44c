#include "hanse/rules/aggregation/fair.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "hanse/base/index.hpp"
#include "simplex.hpp"

namespace hanse {

namespace {

class Afl final : public Aggregator {
 public:
  Afl(double rate, bool restricted, Estimator estimator, int64_t clients)
      : rate_(rate),
        restricted_(restricted),
        estimator_(estimator),
        lambda_(static_cast<std::size_t>(clients), 1.0 / static_cast<double>(clients)) {}

  AggregatorNeeds needs() const override { return {.losses = true}; }

  Mix mix(const RoundReport& report) override {
    require_losses(report.losses, -INFINITY);
    const std::vector<double> once(report.losses.size(), 1.0);
    const std::span<const double> draw_weights = restricted_ ? once : report.draw_weights;
    for (std::size_t i = 0; i < report.losses.size(); ++i) {
      // With everybody drawn the weights are 1 and this is the full gradient.
      lambda_[to_index(report.clients[i])] += rate_ * draw_weights[i] * report.losses[i];
    }
    if (!restricted_) lambda_ = project_to_simplex(lambda_);
    std::vector<double> shares;
    for (const int64_t client : report.clients) shares.push_back(lambda_[to_index(client)]);
    if (restricted_) {
      shares = project_to_simplex(shares);
      for (std::size_t i = 0; i < shares.size(); ++i) {
        lambda_[to_index(report.clients[i])] = shares[i];
      }
    }
    // Nobody drawn may be left with weight: then the participants count the same.
    if (std::all_of(shares.begin(), shares.end(), [](double share) { return share <= 0; })) {
      std::fill(shares.begin(), shares.end(), 1.0 / static_cast<double>(lambda_.size()));
    }
    return {.coefficients = estimate(shares, draw_weights, estimator_)};
  }

  std::vector<double> decision() const override { return lambda_; }

 protected:
  void visit(StateFields& fields) override { fields.fixed("decision", lambda_); }

 private:
  double rate_;
  bool restricted_;
  Estimator estimator_;
  std::vector<double> lambda_;  // [K]
};

class QFedAvg final : public Aggregator {
 public:
  QFedAvg(double q, double lipschitz, ClientWeights weights)
      : q_(q), lipschitz_(lipschitz), weights_(weights) {}

  AggregatorNeeds needs() const override {
    return {.sizes = weights_ == ClientWeights::kSamples, .losses = true, .norms = true};
  }

  // s_i F_i^q L; scale() divides by sum s_i h_i.
  Mix mix(const RoundReport& report) override {
    require_losses(report.losses, 0);
    Mix mix{.coefficients = powers_of(report)};
    // Sums to 1, as every rule's do; scale() undoes it.
    const double total = sum_of(mix.coefficients);
    for (double& power : mix.coefficients) power /= total;
    return mix;
  }

  double scale(const RoundReport& report, std::span<const double> squared_norms) const override {
    const auto powers = powers_of(report);
    double h = 0;
    for (std::size_t i = 0; i < powers.size(); ++i) {
      const double slope = q_ * powers[i] / std::max(report.losses[i], kLeast);  // s q F^{q-1}
      // |Delta_i|^2 = L^2 |theta - theta_i|^2
      h += slope * lipschitz_ * lipschitz_ * squared_norms[i] + lipschitz_ * powers[i];
    }
    return sum_of(powers) * lipschitz_ / h;
  }

 private:
  static constexpr double kLeast = 1e-10;  // a loss of 0 counts as this

  static double sum_of(std::span<const double> values) {
    return std::accumulate(values.begin(), values.end(), 0.0);
  }

  // s F^q, with F and the draws' weights over their largest ones, which cancel in the step: no
  // power is out of range.
  std::vector<double> powers_of(const RoundReport& report) const {
    std::vector<double> powers = shares_of(report, weights_);
    const double largest = std::max(kLeast, std::ranges::max(report.losses));
    const double heaviest = std::ranges::max(report.draw_weights);
    for (std::size_t i = 0; i < powers.size(); ++i) {
      powers[i] *= report.draw_weights[i] / heaviest *
                   std::pow(std::max(report.losses[i], kLeast) / largest, q_);
    }
    return powers;
  }

  double q_;
  double lipschitz_;
  ClientWeights weights_;
};

class FedHeal final : public Aggregator {
 public:
  FedHeal(double threshold, double beta, int64_t clients)
      : threshold_(threshold),
        beta_(beta),
        distances_(to_index(clients)),
        deltas_(to_index(clients)),
        weights_(to_index(clients), 1 / static_cast<double>(clients)) {}

  AggregatorNeeds needs() const override { return {.distances = true, .sign_share = threshold_}; }

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

std::unique_ptr<Aggregator> make_afl(double rate, bool restricted, Estimator estimator,
                                     int64_t clients) {
  return std::make_unique<Afl>(rate, restricted, estimator, clients);
}

std::unique_ptr<Aggregator> make_qfedavg(double q, double lipschitz, ClientWeights weights) {
  return std::make_unique<QFedAvg>(q, lipschitz, weights);
}

std::unique_ptr<Aggregator> make_term(double temperature, ClientWeights weights) {
  const bool sizes = weights == ClientWeights::kSamples;
  return make_rule({.sizes = sizes, .losses = true}, [=](const RoundReport& report) -> Mix {
    require_losses(report.losses, -INFINITY);
    const double largest = std::ranges::max(report.losses);
    std::vector<double> shares = shares_of(report, weights);
    for (std::size_t i = 0; i < shares.size(); ++i) {
      shares[i] *= std::exp(temperature * (report.losses[i] - largest));
    }
    return {.coefficients = estimate(shares, report.draw_weights, Estimator::kNormalized)};
  });
}

std::unique_ptr<Aggregator> make_superquantile(double tail) {
  return make_rule({.sizes = true, .losses = true}, [tail](const RoundReport& report) {
    require_losses(report.losses, -INFINITY);
    const auto most = estimate(report.lambda, report.draw_weights, Estimator::kNormalized);
    std::vector<std::size_t> order(most.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return report.losses[a] > report.losses[b];
    });
    Mix mix{.coefficients = std::vector<double>(most.size(), 0.0)};
    double left = 1;
    for (const std::size_t i : order) {
      mix.coefficients[i] = std::min(most[i] / tail, left);
      left -= mix.coefficients[i];
    }
    return mix;
  });
}

std::unique_ptr<Aggregator> make_fedheal(double threshold, double beta, int64_t clients) {
  return std::make_unique<FedHeal>(threshold, beta, clients);
}

}  // namespace hanse
