// Robust rules: means that hold when some participants send anything they like. Each of these is a
// combination of the rows that depends on their K x K inner products alone.
//
// Throughout, n is the number of rows, f how many of them may be byzantine; equal scores and equal
// distances are decided for the smaller place in the draw. All functions are pure, and the same
// inner products give the same bits. Coefficients are [n], in the order of the rows, and sum to 1
// where nothing else is said. A mean of m rows gives each of them the double that fedavg gives each
// of m clients.
#pragma once

#include <cstdint>
#include <vector>

#include "hanse/rules/aggregation/gram_view.hpp"
#include "hanse/rules/variant.hpp"

namespace hanse {

using Coefficients = std::vector<double>;

// Each of `places` gets what fedavg gives each of as many clients, the other of n rows get 0.
Coefficients mean_of(const std::vector<std::size_t>& places, std::size_t n);

// [n] score_i: the sum of the squared distances of u_i to its nearest others, n - f - 2 of them in
// the paper (Blanchard et al. 2017), and n - f - 1 in the `reference` form, ByzFL's. The forms may
// choose differently. REQUIRES: 2f < n. At least one neighbour counts where there is one, as in
// Flower. Cost: O(n^2 log n).
std::vector<double> krum_scores(const GramView& gram, int64_t f, Variant variant);

// Krum (Blanchard et al. 2017): the row of the least score. Multi-Krum: the mean of the `keep` rows
// of the least scores, which are counted once and not anew for each row. ByzFL keeps n - f; the
// paper leaves the number open. REQUIRES: 1 <= keep <= n, 2f < n.
Coefficients multi_krum(const GramView& gram, int64_t f, int64_t keep, Variant variant);

// How far the best row leads: (second least score - least) / least; 0 of a single row or of equal
// scores, infinity where only the least is 0.
double krum_margin(const std::vector<double>& scores);

// Bulyan's first stage (El Mhamdi et al. 2018, as Flower runs it): n - 2f times Krum among the rows
// that are left. Returns the chosen places, ascending. REQUIRES: n >= 4f + 3. Cost: O(n^3 log n).
std::vector<std::size_t> bulyan_selection(const GramView& gram, int64_t f, Variant variant);

// Minimum diameter averaging (Rousseeuw 1985; El Mhamdi et al. 2018): the mean of those n - f rows
// whose largest distance is least, the lexicographically first of such sets. By branch and bound:
// a set is given up as soon as it is as wide as the best one. REQUIRES: 2f < n. Cost: at most
// C(n, f) n^2.
Coefficients smallest_diameter(const GramView& gram, int64_t f);

// MoNNA (Farhadkhani et al. 2023): the mean of the n - f rows nearest to u_pivot, a participant
// that is trusted, itself among them. REQUIRES: f < n, pivot < n. Cost: O(n log n).
Coefficients nearest_to(const GramView& gram, int64_t f, std::size_t pivot);

// The geometric median by Weiszfeld's smoothed iteration (RFA, Pillutla et al. 2022): z = 0, then
// `iterations` times
//   beta_i = max(|u_i - z|, smoothing),  w_i = (1/beta_i) / sum_j (1/beta_j),  z = sum w_i u_i,
//   |u_i - z|^2 = G_ii - 2 (G w)_i + w^T G w.
// ByzFL starts from 0 too, with 3 iterations and a smoothing of 0.1. REQUIRES: iterations >= 1,
// smoothing > 0. Cost: O(iterations n^2).
Coefficients geometric_median(const GramView& gram, int64_t iterations, double smoothing);

// Centered clipping (Karimireddy, He and Jaggi 2021): v = m at first, then `iterations` times
//   v <- v + (1/n) sum_i (u_i - v) min(1, radius / |u_i - v|).
// `rows` of `gram` are participants; one more row is m, the last step, and without it m = 0.
// Returns [gram.n]: with t_i = min(1, radius / |u_i - v|) / n they are c <- c (1 - sum t) + t. The
// sum of the coefficients is 1 with m and at most 1 without. REQUIRES: gram.n - rows is 0 or 1,
// radius > 0. Cost: O(iterations n^2).
Coefficients centered_clipping(const GramView& gram, std::size_t rows, double radius,
                               int64_t iterations);

// FLTrust (Cao et al. 2021): the last row of `gram` is u_0, the server's own update on data that it
// trusts; with TS_i = max(0, cos(u_i, u_0)) the step is sum TS_i (|u_0| / |u_i|) u_i / sum TS_i.
// Returns [gram.n], the last of which is 0; all are 0 where no row has a positive product with u_0.
// The sum is not 1. REQUIRES: gram.n >= 1. Cost: O(n).
Coefficients trusted_mean(const GramView& gram);

// SMEA (Allouah et al. 2023, ByzFL): the mean of those n - f rows whose covariance has the least
// largest eigenvalue, the lexicographically first of such sets. Eigenvalues are those of the
// centred inner products, exactly; ByzFL makes one power iteration from a random vector. REQUIRES:
// 2f < n. Cost: C(n, f) eigenvalue problems of size n - f.
Coefficients least_covariance(const GramView& gram, int64_t f);

// CAF (Allouah et al. 2025, ByzFL): c = 1; while sum c > n - 2f: mu = sum c_i u_i / sum c, the
// largest eigenvalue lambda and its unit vector v of sum c_i (u_i - mu)(u_i - mu)^T / sum c,
// t_i = ((u_i - mu).v)^2, c_i <- c_i (1 - t_i / max t). The result is the mu of the least lambda,
// the first of equals. With p = c / sum c, Z = I - 1 p^T and A = sqrt(p) Z G Z^T sqrt(p), lambda is
// A's largest eigenvalue and (u_i - mu).v = (Z G Z^T sqrt(p) a)_i / sqrt(lambda) for its unit
// vector a. ByzFL makes one power iteration from a random vector in the place of the eigenpair.
// max t is that of the rows with c_i > 0, so that each step takes a row to 0; in the `reference`
// form it is that of all rows, as in ByzFL, where a far row that is gone makes the others fade
// slowly. REQUIRES: 2f < n. Cost: at most n eigenvalue problems of size n; `reference` may need
// more, and ends after kFilterSteps.
inline constexpr int64_t kFilterSteps = 10000;
Coefficients covariance_filter(const GramView& gram, int64_t f, Variant variant);

// The largest eigenvalue of sum p_i (u_i - mu)(u_i - mu)^T, mu = sum p_i u_i, for weights p >= 0 of
// sum 1. Cost: an eigenvalue problem of size n.
double largest_variance(const GramView& gram, const std::vector<double>& p);

// C(n, k), at most `most`. REQUIRES: 0 <= k <= n.
int64_t combinations(int64_t n, int64_t k, int64_t most);

}  // namespace hanse
