#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/aggregation/aaggff.hpp"
#include "simplex.hpp"

namespace hanse {

namespace {

class AaggffS final : public Aggregator {
 public:
  AaggffS(const AaggffOptions& options, int64_t clients)
      : options_(options),
        reference_(options.variant == Variant::kReference),
        k_(static_cast<std::size_t>(clients)),
        p_(k_, reference_ ? 1.0 : 1.0 / static_cast<double>(clients)),
        linear_(k_),
        curvature_(k_ * k_) {
    const double lipschitz = options.response.c2 / (1 + options.response.c1);  // L
    alpha_ = options.alpha > 0 ? options.alpha : 4 * static_cast<double>(clients) * lipschitz;
    beta_ = options.beta > 0 ? options.beta : 1 / (4 * lipschitz);
    options_.response.falling_normal = reference_;
  }

  AggregatorNeeds needs() const override { return {.losses = true, .full = true}; }

  Mix mix(const RoundReport& report) override {
    require_all(report);
    const double mean =
        std::accumulate(report.losses.begin(), report.losses.end(), 0.0) / static_cast<double>(k_);
    const auto in_order = respond(options_.response, report.losses, mean);
    std::vector<double> response(k_);  // by client
    for (std::size_t i = 0; i < k_; ++i) {
      response[static_cast<std::size_t>(report.clients[i])] = in_order[i];
    }
    learn(response);
    std::vector<double> shares;
    for (const int64_t client : report.clients) {
      shares.push_back(p_[static_cast<std::size_t>(client)]);
    }
    return {.coefficients = estimate(shares, report.draw_weights, options_.estimator),
            .response = in_order};
  }

  std::vector<double> decision() const override { return p_; }

  void save(State& state) const override {
    state.put("decision", std::span(p_));
    state.put("linear", std::span(linear_));
    state.put("curvature", std::span(curvature_));
  }
  void load(const State& state) override {
    state.get_into<double>("decision", p_);
    state.get_into<double>("linear", linear_);
    state.get_into<double>("curvature", curvature_);
  }

 private:
  void require_all(const RoundReport& report) const {
    if (report.clients.size() == k_) return;
    throw InvalidArgument(fmt::format("aaggff-s got {} of {} clients", report.clients.size(), k_),
                          "aggregator.kind", "use sampler.kind = full, or aaggff-d");
  }

  // Eq. (7) with sum beta/2 (g.(p - p_tau))^2 = beta/2 p.G p - beta p.(sum g (g.p_tau)) + const.
  void learn(std::span<const double> response) {
    double growth = 1;  // 1 + p.r
    for (std::size_t i = 0; i < k_; ++i) growth += p_[i] * response[i];
    const double along = (1 - growth) / growth;  // g.p
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
  std::vector<double> curvature_;  // [K, K] sum g g^T
};

}  // namespace

std::unique_ptr<Aggregator> make_aaggff_s(const AaggffOptions& options, int64_t clients) {
  return std::make_unique<AaggffS>(options, clients);
}

}  // namespace hanse
