#include "hanse/rules/aggregation/aaggff.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numbers>
#include <numeric>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/products.hpp"
#include "simplex.hpp"

namespace hanse {

namespace {

// Indexed by Cdf.
constexpr double (*kCdfs[])(double x) = {
    [](double x) { return std::erfc((1 - x) / std::numbers::sqrt2) / 2; },  // Phi(x - 1)
    [](double x) { return -std::expm1(-x * x); },                           // 1 - e^{-x^2}
    [](double x) { return x > 0 ? std::exp(-1 / x) : 0; },                  // e^{-1/x}
    [](double x) { return -std::expm1(-x); },                               // 1 - e^{-x}
    [](double x) { return 1 / (1 + std::exp(1 - x)); },                     // 1 / (1 + e^{-(x-1)})
    [](double x) { return std::exp(-std::exp(1 - x)); },                    // e^{-e^{-(x-1)}}
};
static_assert(std::size(kCdfs) == choices_of(Cdf()).size());

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

class AaggffS final : public Aggregator {
 public:
  AaggffS(const AaggffOptions& options, int64_t clients)
      : options_(options),
        reference_(options.variant == Variant::kReference),
        k_(static_cast<std::size_t>(clients)),
        p_(k_, reference_ ? 1.0 : 1.0 / static_cast<double>(clients)),
        linear_(k_) {
    const double lipschitz = options.response.c2 / (1 + options.response.c1);  // L
    alpha_ = options.alpha > 0 ? options.alpha : 4 * static_cast<double>(clients) * lipschitz;
    beta_ = options.beta > 0 ? options.beta : 1 / (4 * lipschitz);
    options_.response.falling_normal = reference_;
  }

  // The sums of curvatures, the form that is minimised, and its factor.
  AggregatorNeeds needs() const override {
    return {.losses = true, .full = true, .matrices = 3, .cubes = 0.5};
  }

  Mix mix(const RoundReport& report) override {
    if (report.clients.size() != k_) {
      throw InvalidArgument(fmt::format("aaggff-s got {} of {} clients", report.clients.size(), k_),
                            "aggregator.kind", "use sampler.kind = full, or aaggff-d");
    }
    const auto in_order = respond(options_.response, report.losses, mean_of(report.losses));
    std::vector<double> response(k_);  // by client
    for (std::size_t i = 0; i < k_; ++i) response[to_index(report.clients[i])] = in_order[i];
    learn(response);
    std::vector<double> shares;
    for (const int64_t client : report.clients) shares.push_back(p_[to_index(client)]);
    return {.coefficients = estimate(shares, report.draw_weights, options_.estimator),
            .response = in_order};
  }

  std::vector<double> decision() const override { return p_; }

 protected:
  void visit(StateFields& fields) override {
    fields.fixed("decision", p_);
    fields.fixed("linear", linear_);
    curvature_.resize(k_ * k_);
    fields.fixed("curvature", curvature_);
  }

 private:
  // Eq. (7) with sum beta/2 (g.(p - p_tau))^2 = beta/2 p.G p - beta p.(sum g (g.p_tau)) + const.
  void learn(std::span<const double> response) {
    double growth = 1;  // 1 + p.r
    for (std::size_t i = 0; i < k_; ++i) growth += p_[i] * response[i];
    const double along = (1 - growth) / growth;  // g.p
    curvature_.resize(k_ * k_);
    const double centre = reference_ ? 0 : beta_ * along;
    for (std::size_t i = 0; i < k_; ++i) {
      const double g_i = -response[i] / growth;
      linear_[i] += g_i * (1 - centre);
      for (std::size_t j = 0; j < k_; ++j) {
        curvature_[i * k_ + j] += g_i * (-response[j] / growth);
      }
    }
    std::vector<double> h(k_ * k_);
    const double ridge = reference_ ? alpha_ * (1 + beta_) : alpha_;
    for (std::size_t i = 0; i < h.size(); ++i) h[i] = beta_ * curvature_[i];
    for (std::size_t i = 0; i < k_; ++i) h[i * k_ + i] += ridge;
    p_ = minimize_on_simplex(h, linear_, p_);
  }

  AaggffOptions options_;
  bool reference_;
  std::size_t k_;
  double alpha_;
  double beta_;
  std::vector<double> p_;          // [K] the decision
  std::vector<double> linear_;     // [K] sum g (1 - beta g.p_tau)
  std::vector<double> curvature_;  // [K, K] sum g g^T; empty before the first round
};

class AaggffD final : public Aggregator {
 public:
  AaggffD(const AaggffOptions& options, int64_t clients, double participation)
      : options_(options),
        clients_(clients),
        start_(reference() ? participation : 1.0 / static_cast<double>(clients)),
        full_(participation >= 1) {
    const double c1 = options.response.c1;
    const double c2 = options.response.c2;
    lipschitz_ = c2 / (1 + c1);
    if (!full_) lipschitz_ += 2 * (c2 - c1) / (participation * (1 + c1));
    if (reference()) lipschitz_ = 2 + participation;
    if (options.lipschitz > 0) lipschitz_ = options.lipschitz;
    options_.response.falling_normal = reference();
  }

  AggregatorNeeds needs() const override { return {.losses = true}; }

  Mix mix(const RoundReport& report) override {
    const double mean_loss = mean_of(report.losses);
    const bool from_before = options_.variant == Variant::kCorrected && rounds_ > 0;
    const auto response =
        respond(options_.response, report.losses, from_before ? mean_loss_ : mean_loss);
    const double mean_response = mean_of(response);
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
    if (rounds_ == 0) return std::vector<double>(to_index(clients_), start_);
    std::vector<int64_t> all(to_index(clients_));
    std::iota(all.begin(), all.end(), int64_t{0});
    return decision_of(all);
  }

 protected:
  void visit(StateFields& fields) override {
    std::vector<int64_t> ids;
    std::vector<double> sums;
    for (const auto& [client, sum] : gradient_) {
      ids.push_back(client);
      sums.push_back(sum);
    }
    fields.all("clients", ids);
    sums.resize(ids.size());
    fields.fixed("gradients", sums);
    fields.one("rounds", rounds_);
    fields.one("mean_loss", mean_loss_);
    fields.one("mean_response", mean_response_);
    if (!fields.loads()) return;
    gradient_.clear();
    for (std::size_t i = 0; i < ids.size(); ++i) gradient_[ids[i]] = sums[i];
  }

 private:
  bool reference() const { return options_.variant == Variant::kReference; }

  // Adds the round's gradients. It keeps only what g_i = -rd_i / (1 + rbar) + a common term differs
  // by from the unsampled clients' gradient: the softmax cancels the rest.
  void learn(const RoundReport& report, std::span<const double> response, double mean) {
    // A sampler with replacement may leave clients out of as many draws as there are clients.
    const bool exact = full_ && std::ssize(response) == clients_;
    const double total = rounds_ == 0 ? start_ * static_cast<double>(clients_) : 1;  // sum of p
    const double growth = 1 + total * (exact ? expected(report, response) : mean);   // eq. (11)
    for (std::size_t i = 0; i < response.size(); ++i) {
      double excess = report.draw_weights[i] * (response[i] - mean);  // rd_i - rbar, eq. (10)
      if (reference()) excess -= mean;
      if (exact) excess = response[i];
      gradient_[report.clients[i]] -= excess / growth;
    }
    ++rounds_;
  }

  // p.r under the decision of the round before; all clients take part.
  double expected(const RoundReport& report, std::span<const double> response) const {
    const auto shares = shares_of(report.clients);
    return inner_product(shares, response) / std::accumulate(shares.begin(), shares.end(), 0.0);
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
  double start_;  // p_i before the first round
  bool full_;
  double lipschitz_;
  int64_t rounds_ = 0;    // t
  double mean_loss_ = 0;  // of the round before
  double mean_response_ = 0;
  // Sum g_i less the unsampled clients' share, by client ever drawn. In order, so that sums over it
  // are the same after a resume.
  std::map<int64_t, double> gradient_;
};

}  // namespace

double cdf(const ResponseOptions& options, double x) {
  if (options.cdf == Cdf::kNormal && options.falling_normal) {
    return (1 + std::erfc((x - 1) / std::numbers::sqrt2)) / 2;
  }
  return kCdfs[static_cast<std::size_t>(options.cdf)](x);
}

std::vector<double> respond(const ResponseOptions& options, std::span<const double> losses,
                            double mean_loss) {
  require_losses(losses, 0);
  std::vector<double> responses;
  responses.reserve(losses.size());
  for (const double loss : losses) {
    const double x = mean_loss > 0 ? loss / mean_loss : 1;
    responses.push_back(options.c1 + (options.c2 - options.c1) * cdf(options, x));
  }
  return responses;
}

std::unique_ptr<Aggregator> make_aaggff_s(const AaggffOptions& options, int64_t clients) {
  return std::make_unique<AaggffS>(options, clients);
}

std::unique_ptr<Aggregator> make_aaggff_d(const AaggffOptions& options, int64_t clients,
                                          double participation) {
  return std::make_unique<AaggffD>(options, clients, participation);
}

}  // namespace hanse
