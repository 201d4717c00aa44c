// What pulls of a finite set of arms say about a linearised reward function.
//
// Arm x has the feature phi_x = grad_w f_x(w0), in R^d, and the base f_x(w0). A pull that gives y
// has the residual r = y - f_x(w0). With n_x pulls of x whose residuals sum to s_x,
//   Sigma = lambda I + sum_x n_x phi_x phi_x^T,   v = sum_x s_x phi_x,
// and w0 + Sigma^{-1} v is the centre of the confidence set (Fed-GO-UCB, Li, Liu and Wang 2023,
// eqs. 5 and 6: the centre is the same number, with v in the place of b).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace hanse {

// How statistics travel. Both carry the same information.
enum class StatisticsForm {
  kPacked,  // the lower triangle of Sigma - lambda I, and v: d (d + 1) / 2 + d numbers
  kPerArm,  // n_x and s_x: two numbers an arm
};

// auto: per arm when arms are fewer than features, else packed.
enum class AskedStatistics { kAuto, kPacked, kPerArm };
constexpr auto choices_of(AskedStatistics) { return std::array{"auto", "packed", "per-arm"}; }

StatisticsForm statistics_form(AskedStatistics asked, int64_t arms, int64_t dimension);

// Numbers of a row of statistics.
int64_t statistics_width(int64_t arms, int64_t dimension, StatisticsForm form);

// The arms. Per-arm statistics of fewer arms than features are kept in an orthonormal basis of the
// span of the features: with Phi^T = Q R, arm x has column x of R in the place of phi_x, and Sigma
// is a matrix of `arms` rows. No width changes by that, nor does any mean.
class ArmFeatures {
 public:
  // `features` [arms, dimension], `base` [arms]. Cost: a QR decomposition at most, 2 d A^2 flops.
  // Throws InvalidArgument: fewer than two arms, no features, a number that is not finite.
  ArmFeatures(std::vector<double> features, std::vector<double> base, StatisticsForm form);

  int64_t arms() const { return arms_; }
  int64_t dimension() const { return dimension_; }      // d
  int64_t coordinates() const { return coordinates_; }  // p, rows of Sigma
  StatisticsForm form() const { return form_; }
  // Numbers of a statistics row.
  int64_t row_width() const { return statistics_width(arms_, dimension_, form_); }
  double base(int64_t arm) const { return base_[static_cast<std::size_t>(arm)]; }
  // The feature in the coordinates of Sigma, [p].
  std::span<const double> of(int64_t arm) const;
  std::span<const double> all() const { return features_; }  // [arms, p]

  // From the coordinates of Sigma [p] to weights [d], and the part of weights in their span.
  std::vector<double> to_weights(std::span<const double> coordinates) const;
  std::vector<double> to_coordinates(std::span<const double> weights) const;

 private:
  int64_t arms_;
  int64_t dimension_;
  int64_t coordinates_;
  StatisticsForm form_;
  std::vector<double> features_;  // [arms, p]
  std::vector<double> base_;      // [arms]
  std::vector<double> basis_;     // [p, d], rows of Q^T; empty: the identity
};

// Adds a pull to a row of statistics [row_width()], which travels: packed, columns of the lower
// triangle and then v; per arm, all n_x and then all s_x. Cost O(p^2) packed, O(1) per arm.
void add_pull(const ArmFeatures& features, int64_t arm, double residual, std::span<double> row);
// Adds it to statistics per arm, whatever the features.
void add_pull(int64_t arm, double residual, std::span<double> row);

// Means and widths of all arms under Sigma and v. Keeps Sigma = L L^T.
class ConfidenceSet {
 public:
  // No pulls. REQUIRES: lambda > 0; `features` outlives this object.
  ConfidenceSet(const ArmFeatures& features, double lambda);

  // Starts again from the statistics of a row. Cost p^3 / 3 + p^2 A flops.
  void rebuild(std::span<const double> row);
  // One more pull: L moves by a rank-one update (Gill et al. 1974, method C1), means and widths by
  // the pulled feature's covariance with each arm's. So that rounding stays below 1e-12, L is
  // computed anew from Sigma every 64 pulls, means and widths with it and whenever a width has
  // fallen to a hundredth. Cost A p + 4 p^2 flops; anew, A p^2.
  void observe(int64_t arm, double residual);
  // Looks at the same pulls with other arms of as many coordinates. Cost A p^2 flops.
  void look_at(const ArmFeatures& features);

  const ArmFeatures& features() const { return *features_; }
  double lambda() const { return lambda_; }
  // phi_x . Sigma^{-1} v, [arms].
  std::span<const double> means() const { return means_; }
  // phi_x . Sigma^{-1} phi_x, [arms].
  std::span<const double> squared_widths() const { return squared_widths_; }
  // log(det Sigma / lambda^d).
  double log_growth() const { return log_growth_; }
  // v . Sigma^{-1} v.
  double explained() const;
  // The lower triangle of Sigma, [p, p] by columns.
  std::span<const double> matrix() const { return sigma_; }

  // Sigma^{-1} v, [d]: from w0 to the centre.
  std::vector<double> shift() const;
  // Sigma^{-1} g of any g [d]. Cost O(p^2 + p d).
  std::vector<double> solve(std::span<const double> weights) const;
  // Solves in place, in the coordinates of Sigma, [p].
  void solve_in_place(std::span<double> coordinates) const;

 private:
  void factor();
  void refresh();
  void move(int64_t arm, double residual, std::span<const double> direction);

  const ArmFeatures* features_;
  double lambda_;
  int64_t pulls_since_factor_ = 0;
  double log_growth_ = 0;
  std::vector<double> sigma_;           // [p, p], lower triangle by columns
  std::vector<double> factor_;          // [p, p], L by columns
  std::vector<double> v_;               // [p]
  std::vector<double> centre_;          // [p] Sigma^{-1} v
  std::vector<double> means_;           // [arms]
  std::vector<double> squared_widths_;  // [arms]
  std::vector<double> computed_;        // [arms] squared_widths_ when they were computed anew
};

}  // namespace hanse
