// AAggFF-D as it is printed, with every vector over all clients: the slow reference.
#pragma once

#include "hanse/rules/aggregation/aaggff.hpp"
#include "rules/aggregation/support.hpp"

namespace hanse {

inline AaggffOptions device_options(double c2, Variant variant = Variant::kPaper,
                                    Cdf cdf = Cdf::kNormal) {
  AaggffOptions options{.variant = variant};
  options.response = {.cdf = cdf, .c2 = c2};
  return options;
}

// Eq. (10) by client: rbar + w_i (r_i - rbar) for the sampled ones, rbar for the others; D5: the
// authors' code leaves the first term out where a client is sampled.
inline Numbers doubly_robust(int64_t clients, const Ids& ids, const Numbers& r, const Numbers& w,
                             double rbar, bool reference = false) {
  Numbers estimate(at(clients), rbar);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    estimate[at(ids[i])] = (reference ? 0 : rbar) + w[i] * (r[i] - rbar);
  }
  return estimate;
}

class LiteralD {
 public:
  LiteralD(const AaggffOptions& options, int64_t clients, double participation)
      : decision(at(clients), options.variant == Variant::kReference
                                  ? participation  // D4: the authors' start, which sums to K C
                                  : 1.0 / static_cast<double>(clients)),
        options_(options),
        full_(participation == 1),
        gradients_(at(clients)) {
    const auto [c1, c2] = std::pair(options.response.c1, options.response.c2);
    lipschitz_ = c2 / (1 + c1);
    if (!full_) lipschitz_ += 2 * (c2 - c1) / (participation * (1 + c1));
    if (reference()) lipschitz_ = 2 + participation;
    if (options.lipschitz > 0) lipschitz_ = options.lipschitz;
    options_.response.falling_normal = reference();
  }

  // Coefficients of the participants.
  Numbers mix(const Ids& ids, const Numbers& losses, const Numbers& w) {
    const bool before = options_.variant == Variant::kCorrected && rounds_ > 0;
    const Numbers r = respond(options_.response, losses, before ? mean_loss_ : mean(losses));
    const double rbar = before ? mean_response_ : mean(r);
    mean_loss_ = mean(losses);
    mean_response_ = mean(r);
    const Numbers g = full_ ? exact(ids, r) : linearised(ids, r, w, rbar);
    for (std::size_t i = 0; i < g.size(); ++i) gradients_[i] += g[i];
    ++rounds_;
    decide();
    return coefficients(ids, w);
  }

  Numbers decision;

 private:
  bool reference() const { return options_.variant == Variant::kReference; }

  Numbers exact(const Ids& ids, const Numbers& r) const {
    Numbers all(decision.size());
    for (std::size_t i = 0; i < ids.size(); ++i) all[at(ids[i])] = r[i];
    Numbers g(all.size());
    for (std::size_t i = 0; i < g.size(); ++i) g[i] = -all[i] / (1 + dot(decision, all));
    return g;
  }

  // Eq. (11).
  Numbers linearised(const Ids& ids, const Numbers& r, const Numbers& w, double rbar) const {
    const Numbers rd =
        doubly_robust(static_cast<int64_t>(decision.size()), ids, r, w, rbar, reference());
    const double growth = 1 + rbar * std::accumulate(decision.begin(), decision.end(), 0.0);
    double along = 0;
    for (std::size_t i = 0; i < rd.size(); ++i) along += decision[i] * (rd[i] - rbar);
    Numbers g(rd.size());
    for (std::size_t i = 0; i < g.size(); ++i) {
      g[i] = -rd[i] / growth + rbar * along / (growth * growth);
    }
    return g;
  }

  // Eq. (12).
  void decide() {
    const auto k = static_cast<double>(decision.size());
    double sum = 0;
    for (std::size_t i = 0; i < decision.size(); ++i) {
      decision[i] = std::exp(-std::sqrt(std::log(k)) * gradients_[i] /
                             (lipschitz_ * std::sqrt(static_cast<double>(rounds_ + 1))));
      sum += decision[i];
    }
    for (double& p : decision) p /= sum;
  }

  // Eq. (95) with the draw's weights.
  Numbers coefficients(const Ids& ids, const Numbers& w) const {
    Numbers result;
    for (std::size_t i = 0; i < ids.size(); ++i) result.push_back(decision[at(ids[i])] * w[i]);
    if (options_.estimator == Estimator::kUnbiased) return result;
    const double sum = std::accumulate(result.begin(), result.end(), 0.0);
    for (double& c : result) c /= sum;
    return result;
  }

  AaggffOptions options_;
  bool full_;
  Numbers gradients_;
  double lipschitz_ = 0;
  int64_t rounds_ = 0;
  double mean_loss_ = 0;
  double mean_response_ = 0;
};

}  // namespace hanse
