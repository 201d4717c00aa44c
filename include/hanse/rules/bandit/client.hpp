// One client of a federated bandit: which arm it pulls, and whether the pull makes all synchronize.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "hanse/rules/bandit/confidence.hpp"

namespace hanse {

// Optimism and trigger of Fed-GO-UCB and its relatives.
struct UcbOptions {
  double lambda = 1;      // ridge, > 0; small: wide sets, long exploration
  double gamma = 1;       // trigger, >= 0; 0: every pull synchronizes, infinity: none does
  double sqrt_beta = -1;  // radius of the confidence set; negative: by the next three
  double sigma = 0.1;     // sub-Gaussian constant of the noise, >= 0
  double delta = 0.1;     // chance that the set misses the truth, in (0, 1)
  double radius = 1;      // S, bound of |w* - w0|, >= 0
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

// The largest bound. Bounds that differ by rounding alone (1e-12 of the largest size) count as
// equal, so that equal arms tie on every machine and in both forms of statistics; the lowest arm
// wins.
int64_t best_arm(std::span<const double> bounds);

struct Turn {
  int64_t arm = 0;
  bool triggers = false;
};

// The clients' shared knowledge stays shared until a client pulls an arm of its own.
class BanditClient {
 public:
  // REQUIRES: the references outlive this object, and check_options() has passed.
  BanditClient(const ArmFeatures& features, const UcbOptions& options, const Optimism& optimism,
               std::shared_ptr<const ConfidenceSet> common);

  // The next turn: the arm with the largest bound, and whether
  //   (own pulls since the last synchronization, this one counted)
  //     x (log det Sigma after it - log det Sigma at the last synchronization) > gamma
  // (Algorithm 1, lines 3 and 6). It needs no reward: one pull of x adds log(1 + phi_x . Sigma^{-1}
  // phi_x). Changes nothing, so that a speculative turn that is discarded costs nothing.
  Turn next() const;
  // Makes it, with the reward y. Cost: ConfidenceSet::observe.
  void play(const Turn& turn, double reward);

  // What this client knows alone, as a row that travels.
  const PullStatistics& news() const { return news_; }
  // Its pulls since the last synchronization.
  std::span<const int64_t> own_arms() const { return own_arms_; }
  std::span<const double> own_residuals() const { return own_residuals_; }
  // Ends a synchronization: what all know together.
  void adopt(std::shared_ptr<const ConfidenceSet> common);
  // Goes on from own_arms() and own_residuals() of a client that had adopted the same.
  void replay(std::span<const int64_t> arms, std::span<const double> residuals);

 private:
  void learn(int64_t arm, double residual);
  const ConfidenceSet& set() const { return own_ ? *own_ : *common_; }

  const ArmFeatures* features_;
  UcbOptions options_;
  const Optimism* optimism_;
  std::shared_ptr<const ConfidenceSet> common_;
  std::unique_ptr<ConfidenceSet> own_;  // null before the first own pull
  PullStatistics news_;
  std::vector<int64_t> own_arms_;
  std::vector<double> own_residuals_;
  double growth_ = 0;  // of log det Sigma since the last synchronization
};

}  // namespace hanse
