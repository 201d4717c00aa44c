// AAggFF: adaptive aggregation weights by online convex optimization (Hahn et al. 2024).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "hanse/rules/aggregation/aggregator.hpp"
#include "hanse/rules/aggregation/response.hpp"
#include "hanse/rules/variant.hpp"

namespace hanse {

struct AaggffOptions {
  ResponseOptions response;  // c2 as given; the maker below takes it as it is
  Variant variant = Variant::kPaper;
  Estimator estimator = Estimator::kNormalized;
  double alpha = 0;  // aaggff-s: ridge; 0: 4 K L
  double beta = 0;   // aaggff-s: weight of the curvature; 0: 1 / (4 L)
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
// L = C2/(1+C1) + 2 (C2-C1)/(C (1+C1)).
// participation C = 1: the exact gradient, L = C2/(1+C1), and regret <= 2 L sqrt(T log K) (Theorem
// 5.2); rounds that lack clients all the same (draws with replacement) are estimated as above.
// Known weakness: rbar comes from the same participants, so rd_i is biased towards the mean by
// (K-m)/(m(K-1)); corrected takes rbar and the mean loss of the round before, without bias.
// reference: sampled entries lack "+ rbar", L = 2 + C, and the normal distribution falls.
// REQUIRES: clients >= 1, 0 < participation <= 1, c2 > c1 >= 0.
std::unique_ptr<Aggregator> make_aaggff_d(const AaggffOptions& options, int64_t clients,
                                          double participation);

}  // namespace hanse
