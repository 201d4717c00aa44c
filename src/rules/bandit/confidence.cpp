#include "hanse/rules/bandit/confidence.hpp"

#include <cmath>

#include <fmt/format.h>

#include "decompositions.hpp"
#include "hanse/base/error.hpp"

namespace hanse {

namespace {

using Eigen::Map;
using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

constexpr int64_t kPullsBetweenFactors = 64;
constexpr double kFallen = 0.01;  // of a squared width, since it was computed anew

Map<const Vector> vector_of(std::span<const double> values) {
  return {values.data(), static_cast<Eigen::Index>(values.size())};
}

std::vector<double> values_of(const Vector& x) { return {x.begin(), x.end()}; }

void require_finite(std::span<const double> values, int64_t per_arm, const char* what) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    throw InvalidArgument(fmt::format("{} is not finite", what),
                          fmt::format("arm {}", static_cast<int64_t>(i) / per_arm));
  }
}

// x <- (L L^T)^{-1} x. L [p, p] by columns.
void solve_by_factor(const std::vector<double>& factor, Vector& x) {
  const Map<const Matrix> l(factor.data(), x.size(), x.size());
  l.triangularView<Eigen::Lower>().solveInPlace(x);
  l.triangularView<Eigen::Lower>().transpose().solveInPlace(x);
}

// L <- the factor of L L^T + x x^T; x is used up. L [p, p] by columns.
void update_factor(Map<Matrix> factor, Vector& x) {
  const auto p = factor.rows();
  for (Eigen::Index k = 0; k < p; ++k) {
    const double old = factor(k, k);
    const double now = std::hypot(old, x[k]);
    const double cosine = now / old;
    const double sine = x[k] / old;
    factor(k, k) = now;
    const auto below = p - k - 1;
    auto column = factor.col(k).tail(below);
    column = (column + sine * x.tail(below)) / cosine;
    x.tail(below) = cosine * x.tail(below) - sine * column;
  }
}

}  // namespace

StatisticsForm statistics_form(AskedStatistics asked, int64_t arms, int64_t dimension) {
  const bool fits = asked == AskedStatistics::kAuto && arms < dimension;
  return fits || asked == AskedStatistics::kPerArm ? StatisticsForm::kPerArm
                                                   : StatisticsForm::kPacked;
}

int64_t statistics_width(int64_t arms, int64_t dimension, StatisticsForm form) {
  if (form == StatisticsForm::kPerArm) return 2 * arms;
  return dimension * (dimension + 1) / 2 + dimension;
}

ArmFeatures::ArmFeatures(std::vector<double> features, std::vector<double> base,
                         StatisticsForm form)
    : arms_(static_cast<int64_t>(base.size())),
      dimension_(arms_ > 0 ? static_cast<int64_t>(features.size()) / arms_ : 0),
      coordinates_(dimension_),
      form_(form),
      features_(std::move(features)),
      base_(std::move(base)) {
  if (arms_ < 2) throw InvalidArgument(fmt::format("{} arms, at least 2 are needed", arms_));
  if (dimension_ < 1) throw InvalidArgument("arms without features");
  require_finite(features_, dimension_, "a feature");
  require_finite(base_, 1, "the base value");
  if (form_ == StatisticsForm::kPacked || arms_ >= dimension_) return;
  const auto [q, r] = orthonormal(Map<const Matrix>(features_.data(), dimension_, arms_));
  basis_.assign(q.data(), q.data() + q.size());
  features_.assign(r.data(), r.data() + r.size());
  coordinates_ = arms_;
}

std::span<const double> ArmFeatures::of(int64_t arm) const {
  const auto p = static_cast<std::size_t>(coordinates_);
  return std::span(features_).subspan(static_cast<std::size_t>(arm) * p, p);
}

std::vector<double> ArmFeatures::to_weights(std::span<const double> coordinates) const {
  if (basis_.empty()) return {coordinates.begin(), coordinates.end()};
  const Map<const Matrix> basis(basis_.data(), dimension_, coordinates_);
  return values_of(basis * vector_of(coordinates));
}

std::vector<double> ArmFeatures::to_coordinates(std::span<const double> weights) const {
  if (basis_.empty()) return {weights.begin(), weights.end()};
  const Map<const Matrix> basis(basis_.data(), dimension_, coordinates_);
  return values_of(basis.transpose() * vector_of(weights));
}

void add_pull(int64_t arm, double residual, std::span<double> row) {
  const auto a = static_cast<std::size_t>(arm);
  row[a] += 1;
  row[row.size() / 2 + a] += residual;
}

void add_pull(const ArmFeatures& features, int64_t arm, double residual, std::span<double> row) {
  if (features.form() == StatisticsForm::kPerArm) return add_pull(arm, residual, row);
  const auto phi = features.of(arm);
  double* out = row.data();
  for (std::size_t j = 0; j < phi.size(); ++j) {
    for (std::size_t i = j; i < phi.size(); ++i) *out++ += phi[i] * phi[j];
  }
  for (const double value : phi) *out++ += residual * value;
}

ConfidenceSet::ConfidenceSet(const ArmFeatures& features, double lambda)
    : features_(&features), lambda_(lambda) {
  const auto p = static_cast<std::size_t>(features.coordinates());
  const auto arms = static_cast<std::size_t>(features.arms());
  sigma_.resize(p * p);
  factor_.resize(p * p);
  v_.resize(p);
  centre_.resize(p);
  means_.resize(arms);
  squared_widths_.resize(arms);
  rebuild(std::vector<double>(static_cast<std::size_t>(features.row_width())));
}

void ConfidenceSet::rebuild(std::span<const double> row) {
  const auto p = features_->coordinates();
  Map<Matrix> sigma(sigma_.data(), p, p);
  Map<Vector> v(v_.data(), p);
  sigma = lambda_ * Matrix::Identity(p, p);
  if (features_->form() == StatisticsForm::kPerArm) {
    const Map<const Matrix> phi(features_->all().data(), p, features_->arms());
    const auto counts = vector_of(row.first(row.size() / 2));
    sigma.triangularView<Eigen::Lower>() += phi * counts.asDiagonal() * phi.transpose();
    v.noalias() = phi * vector_of(row.last(row.size() / 2));
  } else {
    const double* in = row.data();
    for (Eigen::Index j = 0; j < p; ++j) {
      for (Eigen::Index i = j; i < p; ++i) sigma(i, j) += *in++;
    }
    v = Map<const Vector>(in, p);
  }
  factor();
  refresh();
}

void ConfidenceSet::observe(int64_t arm, double residual) {
  const auto p = features_->coordinates();
  Vector phi = vector_of(features_->of(arm));
  Map<Matrix> sigma(sigma_.data(), p, p);
  sigma.selfadjointView<Eigen::Lower>().rankUpdate(phi);
  Map<Vector>(v_.data(), p) += residual * phi;
  if (++pulls_since_factor_ == kPullsBetweenFactors) {
    factor();
    return refresh();
  }
  Vector direction = phi;
  solve_by_factor(factor_, direction);
  update_factor(Map<Matrix>(factor_.data(), p, p), phi);
  move(arm, residual, {direction.data(), static_cast<std::size_t>(p)});
}

// Takes in a pull, with Sigma^{-1} phi_x from before it as `direction`.
void ConfidenceSet::move(int64_t arm, double residual, std::span<const double> direction) {
  const auto p = features_->coordinates();
  const auto arms = features_->arms();
  const auto x = static_cast<std::size_t>(arm);
  const Vector covariance =
      Map<const Matrix>(features_->all().data(), p, arms).transpose() * vector_of(direction);
  const double gain = 1 / (1 + covariance[arm]);
  const double surprise = (residual - means_[x]) * gain;
  log_growth_ += std::log1p(covariance[arm]);
  Map<Vector>(centre_.data(), p) += surprise * vector_of(direction);
  bool fallen = false;
  for (std::size_t a = 0; a < means_.size(); ++a) {
    const double with = covariance[static_cast<Eigen::Index>(a)];
    means_[a] += surprise * with;
    squared_widths_[a] -= gain * with * with;
    fallen = fallen || squared_widths_[a] < kFallen * computed_[a];
  }
  if (fallen) refresh();
}

void ConfidenceSet::look_at(const ArmFeatures& features) {
  features_ = &features;
  refresh();
}

void ConfidenceSet::factor() {
  const auto p = features_->coordinates();
  const Map<const Matrix> sigma(sigma_.data(), p, p);
  const Cholesky<Matrix> root(sigma);
  if (!root.exists()) {
    throw InvalidArgument("the matrix of the confidence set is singular to working precision",
                          "bandit.lambda", "use a larger one");
  }
  Map<Matrix>(factor_.data(), p, p) = root.lower();
  pulls_since_factor_ = 0;
}

void ConfidenceSet::refresh() {
  const auto p = features_->coordinates();
  const auto arms = features_->arms();
  const Map<const Matrix> factor(factor_.data(), p, p);
  Matrix half = Map<const Matrix>(features_->all().data(), p, arms);  // L^{-1} phi_x
  const auto lower = factor.triangularView<Eigen::Lower>();
  lower.solveInPlace(half);
  Map<Vector> centre(centre_.data(), p);
  centre = Map<const Vector>(v_.data(), p);
  lower.solveInPlace(centre);
  log_growth_ = -static_cast<double>(p) * std::log(lambda_);
  for (Eigen::Index k = 0; k < p; ++k) log_growth_ += 2 * std::log(factor(k, k));
  for (Eigen::Index a = 0; a < arms; ++a) {
    squared_widths_[static_cast<std::size_t>(a)] = half.col(a).squaredNorm();
    means_[static_cast<std::size_t>(a)] = half.col(a).dot(centre);
  }
  lower.transpose().solveInPlace(centre);
  computed_ = squared_widths_;
}

double ConfidenceSet::explained() const { return vector_of(v_).dot(vector_of(centre_)); }

std::vector<double> ConfidenceSet::shift() const { return features_->to_weights(centre_); }

void ConfidenceSet::solve_in_place(std::span<double> coordinates) const {
  Vector x = vector_of(coordinates);
  solve_by_factor(factor_, x);
  std::copy(x.begin(), x.end(), coordinates.begin());
}

// With Q the basis of the arms' span: Sigma^{-1} g = Q (p x p part)^{-1} Q^T g + (g - Q Q^T g) /
// lambda.
std::vector<double> ConfidenceSet::solve(std::span<const double> weights) const {
  const auto inside = features_->to_coordinates(weights);
  Vector x = vector_of(inside);
  solve_by_factor(factor_, x);
  x -= vector_of(inside) / lambda_;
  auto result = features_->to_weights({x.data(), inside.size()});
  for (std::size_t i = 0; i < result.size(); ++i) result[i] += weights[i] / lambda_;
  return result;
}

}  // namespace hanse
