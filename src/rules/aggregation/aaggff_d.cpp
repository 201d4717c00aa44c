#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "hanse/base/error.hpp"
#include "hanse/rules/aggregation/aaggff.hpp"

namespace hanse {

namespace {

class AaggffD final : public Aggregator {
 public:
  AaggffD(const AaggffOptions& options, int64_t clients, double participation)
      : options_(options), clients_(clients), full_(participation >= 1) {
    const double c1 = options.response.c1;
    const double c2 = options.response.c2;
    lipschitz_ = c2 / (1 + c1);
    if (!full_) lipschitz_ += 2 * (c2 - c1) / (participation * (1 + c1));
    if (options.variant == Variant::kReference) lipschitz_ = 2 + participation;
    options_.response.falling_normal = options.variant == Variant::kReference;
  }

  AggregatorNeeds needs() const override { return {.losses = true}; }

  Mix mix(const RoundReport& report) override {
    const auto n = static_cast<double>(report.losses.size());
    const double mean_loss = std::accumulate(report.losses.begin(), report.losses.end(), 0.0) / n;
    const bool from_before = options_.variant == Variant::kCorrected && rounds_ > 0;
    const auto response =
        respond(options_.response, report.losses, from_before ? mean_loss_ : mean_loss);
    const double mean_response = std::accumulate(response.begin(), response.end(), 0.0) / n;
    learn(report, response, from_before ? mean_response_ : mean_response);
    mean_loss_ = mean_loss;
    mean_response_ = mean_response;
    // Normalized, a common factor cancels.
    const bool unbiased = options_.estimator == Estimator::kUnbiased;
    const auto shares = unbiased ? decision_of(report.clients) : shares_of(report.clients);
    return {.coefficients = estimate(shares, report.draw_weights, options_.estimator),
            .response = response};
  }

  std::vector<double> decision() const override {
    std::vector<int64_t> all(static_cast<std::size_t>(clients_));
    std::iota(all.begin(), all.end(), int64_t{0});
    return decision_of(all);
  }

  void save(State& state) const override;
  void load(const State& state) override;

 private:
  // Adds the round's gradients. Of g_i = -rd_i / (1 + rbar) + a term that all clients share only
  // what differs from the unsampled clients' gradient is kept: the softmax cancels the rest.
  void learn(const RoundReport& report, std::span<const double> response, double mean) {
    // A sampler with replacement may leave clients out of as many draws as there are clients.
    const bool exact = full_ && std::ssize(response) == clients_;
    double growth = 1 + mean;  // eq. (11): 1 + rbar
    if (exact) growth = 1 + expected(report, response);
    for (std::size_t i = 0; i < response.size(); ++i) {
      double excess = report.draw_weights[i] * (response[i] - mean);  // rd_i - rbar, eq. (10)
      if (options_.variant == Variant::kReference) excess -= mean;
      if (exact) excess = response[i];
      gradient_[report.clients[i]] -= excess / growth;
    }
    ++rounds_;
  }

  // p.r under the decision of the round before; all clients take part.
  double expected(const RoundReport& report, std::span<const double> response) const {
    const auto shares = shares_of(report.clients);
    return std::inner_product(shares.begin(), shares.end(), response.begin(), 0.0) /
           std::accumulate(shares.begin(), shares.end(), 0.0);
  }

  // log p_i up to a common term, eq. (12), for the sum of the client's gradients.
  double exponent(double gradient) const {
    return -std::sqrt(std::log(static_cast<double>(clients_))) * gradient /
           (lipschitz_ * std::sqrt(static_cast<double>(rounds_ + 1)));
  }
  double exponent_of(int64_t client) const {
    const auto found = gradient_.find(client);
    return found == gradient_.end() ? 0 : exponent(found->second);
  }

  // p_i up to a common factor.
  std::vector<double> shares_of(std::span<const int64_t> clients) const {
    std::vector<double> shares;
    for (const int64_t client : clients) shares.push_back(exponent_of(client));
    const double largest = *std::max_element(shares.begin(), shares.end());
    for (double& share : shares) share = std::exp(share - largest);
    return shares;
  }

  // p_i: the common factor needs every client that was ever drawn.
  std::vector<double> decision_of(std::span<const int64_t> clients) const {
    const int64_t unseen = clients_ - std::ssize(gradient_);
    double largest = unseen > 0 ? 0 : -INFINITY;
    for (const auto& [client, sum] : gradient_) largest = std::max(largest, exponent(sum));
    double total = static_cast<double>(unseen) * std::exp(-largest);
    for (const auto& [client, sum] : gradient_) total += std::exp(exponent(sum) - largest);
    std::vector<double> p;
    for (const int64_t client : clients) {
      p.push_back(std::exp(exponent_of(client) - largest) / total);
    }
    return p;
  }

  AaggffOptions options_;
  int64_t clients_;
  bool full_;
  double lipschitz_;
  int64_t rounds_ = 0;    // t
  double mean_loss_ = 0;  // of the round before
  double mean_response_ = 0;
  // By client ever drawn: sum g_i less the unsampled clients' share. In order, so that sums over it
  // are the same after a resume.
  std::map<int64_t, double> gradient_;
};

void AaggffD::save(State& state) const {
  std::vector<int64_t> ids;
  std::vector<double> sums;
  for (const auto& [client, sum] : gradient_) {
    ids.push_back(client);
    sums.push_back(sum);
  }
  state.put("clients", std::span<const int64_t>(ids));
  state.put("gradients", std::span<const double>(sums));
  state.put("rounds", rounds_);
  state.put("mean_loss", mean_loss_);
  state.put("mean_response", mean_response_);
}

void AaggffD::load(const State& state) {
  const auto& ids = state.get<int64_t>("clients");
  std::vector<double> sums(ids.size());
  state.get_into<double>("gradients", sums);
  gradient_.clear();
  for (std::size_t i = 0; i < ids.size(); ++i) gradient_[ids[i]] = sums[i];
  rounds_ = state.get_one<int64_t>("rounds");
  mean_loss_ = state.get_one<double>("mean_loss");
  mean_response_ = state.get_one<double>("mean_response");
}

}  // namespace

std::unique_ptr<Aggregator> make_aaggff_d(const AaggffOptions& options, int64_t clients,
                                          double participation) {
  return std::make_unique<AaggffD>(options, clients, participation);
}

}  // namespace hanse
