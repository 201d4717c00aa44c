// What byzantine participants send, in closed form. They see the round's H honest updates u_i,
// their mean h and their deviation s by column (ddof 1), and all send one row
//   a = sum_i c_i u_i + c_h h + c_s s.
// An attack is its coefficients [H + 2], in this order; some need the Gram matrix of these rows.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "hanse/rules/aggregation/gram_view.hpp"

namespace hanse {

struct AttackRow {
  std::vector<double> coefficients;  // [H + 2]
  double strength = 0;               // tau, z or gamma of the formulas below
};

// a = -tau h: sign flipping for tau = 1, inner-product manipulation (Xie, Koyejo and Gupta 2020)
// with ByzFL's default of 2.
AttackRow inner_product_attack(std::size_t honest, double tau);

// a = u of the first honest participant (Karimireddy, He and Jaggi 2022, with a fixed target).
AttackRow mimic_attack(std::size_t honest);

// A little is enough (Baruch, Baruch and Goldberg 2019): a = h + z s, with ByzFL's sign.
AttackRow little_attack(std::size_t honest, double z);

// The z of the paper, for n participants of whom f are byzantine, as Blades computes it:
// m = floor(n/2) + 1 - f, z = Phi^-1((n - f - m) / (n - f)). ByzFL takes 1.5. Throws
// InvalidArgument where no z is finite: m <= 0 or m >= n - f. REQUIRES: 0 <= f < n.
double little_strength(int64_t n, int64_t f);

// |F - h|^2 of what a rule makes of the honest rows and the byzantine participants' row, which has
// these coefficients [H + 2].
using Displacement = std::function<double(std::span<const double> row)>;

enum class OptimalAttack { kLittle, kInnerProduct };

// ALIE or IPM with the strength that moves the aggregate farthest from h, by ByzFL's line search.
AttackRow optimal_attack(std::size_t honest, OptimalAttack kind, const Displacement& displacement);

// ByzFL's line search for the largest value: from 0 in steps of 10, doubled while the value
// rises; after the first that does not, steps of 0.8 of the last, each from the best point, upwards
// alone. `evaluations` in all. Returns the best point. REQUIRES: evaluations >= 1.
double line_search(const std::function<double(double)>& value, int64_t evaluations = 20);

// How min-max and min-sum perturb: p = -h / |h|, or -s. (The direction -sign(h) lies outside the
// span of the rows: give its row in the place of s, and use kDeviation.)
enum class AttackDirection { kUnit, kDeviation };

// Min-max (Shejwalkar and Houmansadr 2021): a = h + gamma p with the largest gamma for which a is
// no farther from any honest row than the two farthest of those are from each other:
// max_i |a - u_i| <= R = max_ij |u_i - u_j|. In closed form, where the authors and Blades bisect:
//   gamma = min_i [ -b_i + sqrt(b_i^2 - (|h - u_i|^2 - R^2) / |p|^2) ],  b_i = p.(h - u_i) / |p|^2.
// `gram` [H + 2, H + 2] is that of (u, h, s). gamma = 0 where p = 0. Cost: O(H^2).
AttackRow min_max_attack(const GramView& gram, AttackDirection direction);

// Min-sum (the same): the sum of the squared distances of a to the honest rows is at most the
// largest such sum of an honest row: one quadratic equation in gamma. Cost: O(H^2).
AttackRow min_sum_attack(const GramView& gram, AttackDirection direction);

// [H + f, H + f] the inner products of the honest rows and f rows a. `gram` is that of (u, h, s).
// Cost: O(H^2 + f H).
std::vector<double> attacked_products(const GramView& gram, std::span<const double> row,
                                      std::size_t f);

}  // namespace hanse
