// Kernelised bandits: DisKernelUCB and ApproxDisKernelUCB (Li, Wang, Wang and Wang 2022), with the
// kernel k(a, b) = exp(-|a - b|^2 / (2 length^2)).
#pragma once

#include <cstdint>
#include <memory>

#include "hanse/rules/bandit/linear.hpp"
#include "hanse/rules/bandit/policy.hpp"
#include "hanse/rules/bandit/problem.hpp"

namespace hanse {

struct KernelOptions {
  double length = 1;     // > 0
  double inclusion = 4;  // q, >= 0: chances of points to enter the dictionary
};

// Throws InvalidArgument that names "bandit.kernel-length" or "bandit.inclusion".
void check_options(const KernelOptions& options);

// Only the lowest of arms at one point is ever pulled: below, points and arms are the same.

// The kernel's ridge regression over all data that a client knows: its bound of an arm is
// mu(x) + width sigma(x), mu(x) = k_x^T (K + lambda I)^{-1} y, sigma^2(x) = (k(x, x) - k_x^T (K +
// lambda I)^{-1} k_x) / lambda; all synchronize when own pulls x log det ratio > gamma, as in
// linear.hpp: with features Z of the arms, Z^T Z = K, the two are one. A synchronization sends all
// raw data that are new, n points of d numbers with their rewards: n (d + 1) up, and as much down
// to each client. The dictionary are all points pulled. The estimate is mu of the arms [arms].
// Cost: ConfidenceSet's, of as many features as the kernel has numerical rank, at most `arms`.
std::unique_ptr<BanditPolicy> make_kernel_policy(const Arms& arms, const UcbOptions& ucb,
                                                 const KernelOptions& kernel, int64_t clients);

// This ridge regression in a dictionary S of points pulled: z(x) = K_SS^{-1/2} k_S(x), by the
// pseudo-inverse. With G = sum z z^T and h = sum z y over the data that a client knows and A = G +
// lambda I,
//   mu(x) = z^T A^{-1} h,  sigma^2(x) = (k(x, x) - z^T G A^{-1} z) / lambda;
// without a dictionary all arms tie. All synchronize when sigma^2 of the last synchronization,
// summed over own pulls since, is above gamma; then each client takes each of its pulls since the
// start into the new dictionary with probability min(1, q sigma^2 of the last synchronization), the
// union of these distinct points is broadcast, and all data are embedded anew. Scalars: |S_i| d up
// of client i, |S| d down and |S|^2 + |S| each way for each client. The estimate is mu of the arms.
// Not the authors': no synchronization is forced, no arm is random. Cost of a synchronization:
// |S|^3 + arms |S|^2 flops, a uniform number for each pull since the start.
std::unique_ptr<BanditPolicy> make_dictionary_policy(const Arms& arms, const UcbOptions& ucb,
                                                     const KernelOptions& kernel, int64_t clients);

}  // namespace hanse
