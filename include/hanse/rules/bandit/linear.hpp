// Optimism over confidence sets of a linearised reward: Fed-GO-UCB, DisLinUCB and their relatives.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "hanse/rules/bandit/confidence.hpp"
#include "hanse/rules/bandit/policy.hpp"

namespace hanse {

// Optimism and trigger of Fed-GO-UCB and its relatives.
struct UcbOptions {
  double lambda = 1;      // ridge, > 0; small: wide sets, long exploration
  double gamma = 1;       // trigger, >= 0; 0: every pull synchronizes, infinity: none does
  double sqrt_beta = -1;  // radius of the confidence set; negative: by the next three
  double sigma = 0.1;     // sub-Gaussian constant of the noise, >= 0
  double delta = 0.1;     // chance that the set misses the truth, in (0, 1)
  double radius = 1;      // S, bound of |w* - w0|, >= 0
  double width = 1;       // factor of the widths where there is no sqrt_beta, >= 0
};

// Throws InvalidArgument that names the option, "bandit.lambda" and so on.
void check_options(const UcbOptions& options);

// sqrt(beta) = sigma sqrt(log(det Sigma / lambda^d) + 2 log(1 / delta)) + sqrt(lambda) S
// (Abbasi-Yadkori et al. 2011, Theorem 2), or as given. Fed-GO-UCB's Lemma 8 has a constant of
// d^3 that no run could use; there is no term for the curvature of f here.
double confidence_radius(const UcbOptions& options, double log_growth);

// Fills `bounds` [arms] with the arms' upper confidence bounds.
using Optimism =
    std::function<void(const ConfidenceSet& set, double sqrt_beta, std::span<double> bounds)>;

// f_x(w0) + phi_x . shift + sqrt_beta |phi_x|_{Sigma^{-1}}: the maximum over the set of the
// linearised f, which is the model the analysis uses.
void linear_optimism(const ConfidenceSet& set, double sqrt_beta, std::span<double> bounds);

// The reward as a function that is linear in the arms' features.
struct LinearModel {
  std::shared_ptr<const ArmFeatures> features;
  Optimism optimism = linear_optimism;
};

struct LinearCase {
  UcbOptions ucb;
  std::function<LinearModel(int64_t client)> model;
  bool own = false;  // each client has a model of its own; nothing may be synchronized
  // The features at the running estimate [d], taken anew behind each synchronization; null: they
  // stay those of the model. REQUIRES: packed statistics.
  std::function<std::shared_ptr<const ArmFeatures>(std::span<const double> estimate)> follow = {};
  // Scalars of a synchronization, as papers count them, in which so many pulls are new. The number
  // of pulls is 0 in packed statistics, which do not have it.
  std::function<double(double pulls)> scalars;
};

// Each client pulls the arm with the largest bound; all synchronize when
//   (own pulls since the last synchronization, this one counted)
//     x (log det Sigma after it - log det Sigma at the last synchronization) > gamma
// (Fed-GO-UCB's Algorithm 1, lines 3 and 6): one pull of x adds log(1 + phi_x . Sigma^{-1} phi_x).
// Its statistics are those of the features, its estimate the shift to the centre of the set [d].
// Cost: ConfidenceSet::observe a pull, ConfidenceSet::rebuild a synchronization. REQUIRES:
// check_options() has passed.
std::unique_ptr<BanditPolicy> make_linear_policy(LinearCase parts);

}  // namespace hanse
