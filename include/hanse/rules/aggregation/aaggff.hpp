// AAggFF: adaptive aggregation weights by online convex optimization (Hahn et al. 2024).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "hanse/rules/aggregation/aggregator.hpp"
#include "hanse/rules/variant.hpp"

namespace hanse {

// Bounded responses to losses (eq. 8): r_i = C1 + (C2 - C1) CDF(F_i / mean F): larger losses answer
// with more, outliers are bounded. Cumulative distribution functions of Appendix B.1, scale and
// shape 1:
//   weibull 1 - exp(-x^2), frechet exp(-1/x), gumbel exp(-exp(-(x-1))), exponential 1 - exp(-x),
//   logistic 1 / (1 + exp(-(x-1))), normal Phi(x-1).
struct ResponseOptions {
  Cdf cdf = Cdf::kNormal;
  double c1 = 0;
  double c2 = 1;
  // The authors' code has (1 + erfc((x-1)/sqrt 2)) / 2 for normal: it FALLS in the loss.
  bool falling_normal = false;
};

// CDF(x) for x >= 0 in [0, 1]. Frechet at 0 is 0.
double cdf(const ResponseOptions& options, double x);

// Responses of the losses against `mean_loss`; all x_i are 1 when that is 0.
// Throws InvalidArgument when a loss is negative or not finite (names the position).
std::vector<double> respond(const ResponseOptions& options, std::span<const double> losses,
                            double mean_loss);

struct AaggffOptions {
  ResponseOptions response;  // c2 as given; the maker below takes it as it is
  Variant variant = Variant::kPaper;
  Estimator estimator = Estimator::kNormalized;
  double alpha = 0;      // aaggff-s: ridge; 0: 4 K L
  double beta = 0;       // aaggff-s: weight of the curvature; 0: 1 / (4 L)
  double lipschitz = 0;  // aaggff-d: L; 0: as below
};

// AAggFF-S, cross-silo (eq. 7): Online Newton Step over the simplex. With the decision loss
// l(p) = -log(1 + p.r), g = -r / (1 + p.r) at the round's p:
//   p <- argmin over the simplex of sum g.p + alpha/2 |p|^2 + beta/2 sum (g.(p - p_tau))^2,
// L = C2 / (1 + C1). Needs every client in every round. Regret <= 2 L K (1 + log(1 + T / (16 K)))
// (Theorem 5.1). State: K x K. Cost a round: O(K^2) and a Cholesky factorization of the support.
// reference: the ridge counts twice, alpha (1 + beta), the proximal centre is dropped, p^1 is all
// ones, and the normal distribution falls. corrected: as paper.
// Throws InvalidArgument when a round lacks clients. REQUIRES: clients >= 1, c2 > c1 >= 0.
std::unique_ptr<Aggregator> make_aaggff_s(const AaggffOptions& options, int64_t clients);

// AAggFF-D, cross-device (eqs. 10-12, 95): FTRL with entropy, p_i ~ exp(-sqrt(log K) sum g_i / (L
// sqrt(t+1))), on the doubly robust estimate rd_i = rbar + w_i (r_i - rbar), w_i the draw's weight
// (1/C for uniform sampling, 0 for the unsampled), linearised at rbar. All unsampled clients share
// one gradient, which the softmax cancels: a round costs O(participants), whatever K; the memory is
// that of the clients ever drawn, and so is the time of a round when the estimator is unbiased.
// L = C2/(1+C1) + 2 (C2-C1)/(C (1+C1)), a bound of |g|_inf that is loose by 3 to 70: a smaller
// `lipschitz` makes the step as much longer, and is covered as long as it bounds the gradients.
// participation C = 1: the exact gradient, L = C2/(1+C1), and regret <= 2 L sqrt(T log K) (Theorem
// 5.2); rounds that lack clients all the same (draws with replacement) are estimated as above.
// Known weakness: rbar comes from the same participants, so rd_i is biased towards the mean by
// (K-m)/(m(K-1)); corrected takes rbar and the mean loss of the round before, without bias.
// reference: sampled entries lack "+ rbar", L = 2 + C, p^1_i = C in the place of 1/K, so that the
// first round divides by 1 + K C rbar, and the normal distribution falls.
// REQUIRES: clients >= 1, 0 < participation <= 1, c2 > c1 >= 0.
std::unique_ptr<Aggregator> make_aaggff_d(const AaggffOptions& options, int64_t clients,
                                          double participation);

}  // namespace hanse
