#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

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
    const double mean_loss =
        std::accumulate(report.losses.begin(), report.losses.end(), 0.0) / n;
    const bool from_before = options_.variant == Variant::kCorrected && rounds_ > 0;
    const auto response =
        respond(options_.response, report.losses, from_before ? mean_loss_ : mean_loss);
    const double mean_response = std::accumulate(response.begin(), response.end(), 0.0) / n;
    learn(report, response, from_before ? mean_response_ : mean_response);
    mean_loss_ = mean_loss;
    mean_response_ = mean_response;
    return {.coefficients = estimate(shares_of(report.clients), report.draw_weights,
                                     options_.estimator),
            .response = response};
  }

  std::vector<double> decision() const override {
    std::vector<int64_t> all(static_cast<std::size_t>(clients_));
    std::iota(all.begin(), all.end(), int64_t{0});
    auto p = shares_of(all);
    const double sum = std::accumulate(p.begin(), p.end(), 0.0);
    for (double& share : p) share /= sum;
    return p;
  }

  void save(State& state) const override;
  void load(const State& state) override;

 private:
  // Adds the round's gradients. Of g_i = -rd_i / (1 + rbar) + a term that all clients share only
  // what differs from the unsampled clients' gradient is kept: the softmax cancels the rest.
  void learn(const RoundReport& report, std::span<const double> response, double mean) {
    double growth = 1 + mean;  // eq. (11): 1 + rbar
    if (full_) growth = 1 + expected(report, response);
    for (std::size_t i = 0; i < response.size(); ++i) {
      double excess = report.draw_weights[i] * (response[i] - mean);  // rd_i - rbar, eq. (10)
      if (options_.variant == Variant::kReference) excess -= mean;
      if (full_) excess = response[i];
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

  // p_i up to a common factor, eq. (12).
  std::vector<double> shares_of(std::span<const int64_t> clients) const {
    const double rate = std::sqrt(std::log(static_cast<double>(clients_))) /
                        (lipschitz_ * std::sqrt(static_cast<double>(rounds_ + 1)));
    std::vector<double> shares;
    double largest = -INFINITY;
    for (const int64_t client : clients) {
      const auto found = gradient_.find(client);
      shares.push_back(found == gradient_.end() ? 0 : -rate * found->second);
      largest = std::max(largest, shares.back());
    }
    for (double& share : shares) share = std::exp(share - largest);
    return shares;
  }

  AaggffOptions options_;
  int64_t clients_;
  bool full_;
  double lipschitz_;
  int64_t rounds_ = 0;        // t
  double mean_loss_ = 0;      // of the round before
  double mean_response_ = 0;
  std::unordered_map<int64_t, double> gradient_;  // sum g_i less the unsampled clients' share
};

void AaggffD::save(State& state) const {
  std::vector<int64_t> ids;
  for (const auto& [client, sum] : gradient_) ids.push_back(client);
  std::sort(ids.begin(), ids.end());
  std::vector<double> sums;
  for (const int64_t client : ids) sums.push_back(gradient_.at(client));
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
