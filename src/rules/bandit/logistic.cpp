#include "hanse/rules/bandit/logistic.hpp"

#include <cmath>

#include "bandit/own_set.hpp"
#include "decompositions.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;
using Eigen::Map;

double logistic(double z) { return 1 / (1 + std::exp(-z)); }

Map<const Vector> as_vector(std::span<const double> values) {
  return {values.data(), std::ssize(values)};
}

// What enters alpha^2 = (lambda / c) S^2 + local + joint - squares + theta_r . b.
struct Radius {
  double newton = 0;   // B2, bound of the loss of the Newton steps
  double local = 0;    // beta_loc
  double joint = 0;    // beta_glob
  double squares = 0;  // Z, sum of (x . theta)^2 at the pulls
};

struct JointKnowledge {
  ConfidenceSet set;  // A_l and b
  Vector theta;       // [p] the joint estimate
  Radius radius;
};

struct Logistic {
  std::shared_ptr<const ArmFeatures> features;
  UcbOptions options;
  double clients;
  double curvature;  // c = s'(S), the least of s on |z| <= S

  double ridge() const { return options.lambda / curvature; }

  // beta_loc after Newton steps, from B2.
  double local_radius(double newton) const {
    const double c = curvature;
    const double r = options.sigma;
    const double root =
        std::sqrt(4 + 8 * newton / c +
                  64 * std::pow(r, 4) / (4 * std::pow(c, 4) * options.delta * options.delta));
    return 1 + 4 * newton / c + 8 * r * r / (c * c) * std::log(clients / options.delta * root);
  }
};

// The point of |theta| <= S that is nearest in the norm of `a` [p, p]: (a + mu I)^{-1} a theta,
// with mu >= 0 by Newton's method on 1 / |theta(mu)| - 1 / S (More and Sorensen 1983), which comes
// from below without overshooting.
Vector project(const Matrix& a, const Vector& theta, double radius) {
  constexpr int kMostSteps = 100;
  constexpr double kEnough = 1e-13;
  if (theta.norm() <= radius) return theta;
  if (radius == 0) return Vector::Zero(theta.size());
  const Vector target = a.selfadjointView<Eigen::Lower>() * theta;
  Vector inside = theta;
  double mu = 0;
  for (int step = 0; step < kMostSteps; ++step) {
    Matrix shifted = a;
    shifted.diagonal().array() += mu;
    const Cholesky<Matrix> factor(std::move(shifted));
    inside = factor.solve(target);
    const double length = inside.norm();
    if (length <= radius * (1 + kEnough)) break;
    const double slope = factor.half_solve(inside).squaredNorm();
    mu += length * length / slope * (length - radius) / radius;
  }
  return inside;
}

class LogisticClient final : public BanditClient {
 public:
  LogisticClient(const Logistic& rule, std::shared_ptr<const JointKnowledge> common)
      : rule_(&rule),
        common_(std::move(common)),
        set_(common_->set),
        theta_(common_->theta),
        radius_(common_->radius) {}

  Turn next() const override {
    const ConfidenceSet& known = set_.get();
    const UcbOptions& options = rule_->options;
    const double squared = rule_->ridge() * options.radius * options.radius + radius_.local +
                           radius_.joint - radius_.squares + known.explained();
    const double alpha = options.width * std::sqrt(std::max(0.0, squared));
    std::vector<double> bounds(known.means().size());
    Map<Eigen::ArrayXd>(bounds.data(), std::ssize(bounds)) =
        as_vector(known.means()).array() + alpha * as_vector(known.squared_widths()).array().sqrt();
    const int64_t arm = best_arm(bounds);
    const auto pulls = static_cast<double>(own().arms.size() + 1);
    return {.arm = arm, .triggers = pulls * set_.growth_with(arm) > options.gamma};
  }

 private:
  // Makes an online Newton step on the pull's loss.
  void learn(int64_t arm, double reward) override {
    const auto x = as_vector(rule_->features->of(arm));
    const double z = x.dot(theta_);
    const ConfidenceSet& known = set_.observe(arm, z);
    radius_.squares += z * z;
    const double slope = logistic(z) - reward;
    const double c = rule_->curvature;
    Vector direction = x;
    known.solve_in_place({direction.data(), to_index(direction.size())});
    const auto p = direction.size();
    theta_ = project(Map<const Matrix>(known.matrix().data(), p, p), theta_ - slope / c * direction,
                     rule_->options.radius);
    radius_.newton += slope * slope * known.squared_widths()[to_index(arm)] / (2 * c);
    radius_.local = rule_->local_radius(radius_.newton);
  }

  const Logistic* rule_;
  std::shared_ptr<const JointKnowledge> common_;
  OwnSet set_;    // its Sigma is A_l
  Vector theta_;  // theta_ons
  Radius radius_;
};

struct Fit {
  Vector theta;     // [p]
  Vector gradient;  // of F at theta
  int64_t steps = 0;
};

class LogisticPolicy final : public BanditPolicy {
 public:
  explicit LogisticPolicy(Logistic rule) : rule_(std::move(rule)) {
    know(std::vector<double>(to_index(row_width())));
  }

  std::unique_ptr<BanditClient> make_client(int64_t) const override {
    return std::make_unique<LogisticClient>(rule_, common_);
  }

  int64_t row_width() const override { return 2 * rule_.features->arms(); }

  void add(const Pulls& pulls, int64_t, std::span<double> row) const override {
    for (std::size_t i = 0; i < pulls.arms.size(); ++i) {
      add_pull(pulls.arms[i], pulls.rewards[i], row);
    }
  }

  double know(std::span<const double> total) override;

  std::vector<double> estimate(std::span<const double> row, int64_t) const override {
    const Vector theta = fit(row).theta;
    return rule_.features->to_weights({theta.data(), to_index(theta.size())});
  }

 private:
  Fit fit(std::span<const double> row) const;
  Radius radius_of(const Fit& fit, const ConfidenceSet& set, double pulls, double squares) const;

  Logistic rule_;
  std::shared_ptr<const JointKnowledge> common_;
};

double LogisticPolicy::know(std::span<const double> total) {
  const auto arms = to_index(rule_.features->arms());
  const auto p = rule_.features->coordinates();
  const Map<const Matrix> x(rule_.features->all().data(), p, std::ssize(total) / 2);
  const Fit joint = fit(total);
  const Vector z = x.transpose() * joint.theta;
  std::vector<double> row(total.begin(), total.end());
  double pulls = 0, squares = 0;
  for (std::size_t a = 0; a < arms; ++a) {
    const double value = z[static_cast<Eigen::Index>(a)];
    pulls += total[a];
    squares += total[a] * value * value;
    row[arms + a] = total[a] * value;
  }
  JointKnowledge known{{*rule_.features, rule_.ridge()}, joint.theta, {}};
  known.set.rebuild(row);  // b = sum (x . theta) x
  known.radius = radius_of(joint, known.set, pulls, squares);
  common_ = std::make_shared<const JointKnowledge>(std::move(known));
  const auto d = static_cast<double>(rule_.features->dimension());
  const double gradients = 2 * d * static_cast<double>(joint.steps);
  return rule_.clients * (d * d + 1 + gradients + d * d + d + 1);
}

// Fits by Nesterov's accelerated gradient, over the arms that have been pulled.
Fit LogisticPolicy::fit(std::span<const double> row) const {
  const auto p = rule_.features->coordinates();
  const auto arms = row.size() / 2;
  Fit fit{Vector::Zero(p), Vector::Zero(p)};
  std::vector<int64_t> pulled;
  for (std::size_t a = 0; a < arms; ++a) {
    if (row[a] > 0) pulled.push_back(static_cast<int64_t>(a));
  }
  Matrix x(p, std::ssize(pulled));
  Eigen::ArrayXd counts(x.cols()), rewards(x.cols());
  for (Eigen::Index i = 0; i < x.cols(); ++i) {
    const auto a = to_index(pulled[to_index(i)]);
    x.col(i) = as_vector(rule_.features->of(static_cast<int64_t>(a)));
    counts[i] = row[a];
    rewards[i] = row[arms + a];
  }
  const double pulls = counts.sum();
  if (pulls == 0) return fit;
  const double lambda = rule_.options.lambda;
  const double step = 0.1 / (0.25 + lambda / pulls);
  const double enough = std::sqrt(2 * lambda / (pulls * pulls * pulls));
  Vector last = fit.theta, z(x.cols());
  double l = 1;
  for (;; ++fit.steps) {
    z.noalias() = x.transpose() * fit.theta;
    z = counts / (1 + (-z.array()).exp()) - rewards;
    fit.gradient = (x * z + lambda * fit.theta) / pulls;
    if (fit.gradient.norm() <= enough || static_cast<double>(fit.steps) >= 2 * pulls) return fit;
    const Vector next = fit.theta - step * fit.gradient;
    const double following = (1 + std::sqrt(1 + 4 * l * l)) / 2;
    const double gamma = (1 - l) / following;
    fit.theta = (1 - gamma) * next + gamma * last;
    last = next;
    l = following;
  }
}

// Before the first pull beta_glob is 0, and beta_loc is that of B2 = c lambda S^2 / 2.
Radius LogisticPolicy::radius_of(const Fit& fit, const ConfidenceSet& set, double pulls,
                                 double squares) const {
  const UcbOptions& options = rule_.options;
  const double c = rule_.curvature, lambda = options.lambda, r = options.sigma;
  if (pulls == 0) {
    const double newton = c * lambda * options.radius * options.radius / 2;
    return {.newton = newton, .local = rule_.local_radius(newton)};
  }
  const auto d = static_cast<double>(rule_.features->dimension());
  const auto p = fit.theta.size();
  const Map<const Matrix> a(set.matrix().data(), p, p);
  const double slope =
      std::sqrt(fit.gradient.dot(a.selfadjointView<Eigen::Lower>() * fit.gradient));
  const double width =
      slope / c +
      r / c *
          std::sqrt(d * std::log(1 + pulls * c / (d * lambda)) + 2 * std::log(1 / options.delta)) +
      std::sqrt(lambda / c) * options.radius;  // W
  const double newton = width * width / (2 * c);
  const double joint_loss = lambda / 2 + 1 / pulls;  // B1
  const double log_det = std::log(1 / options.delta) + d / 2 * std::log(1 + (1 + pulls) / d);
  const double joint = 8 * r * r / (c * c) * log_det + joint_loss +
                       4 * r / c * std::sqrt(2 * log_det) *
                           (fit.theta.norm() + options.radius + std::sqrt(joint_loss));
  return {.newton = newton, .local = newton, .joint = joint, .squares = squares};
}

}  // namespace

std::unique_ptr<BanditPolicy> make_logistic_policy(std::shared_ptr<const ArmFeatures> features,
                                                   const UcbOptions& options, int64_t clients) {
  const double at_edge = logistic(options.radius);
  return std::make_unique<LogisticPolicy>(Logistic{.features = std::move(features),
                                                   .options = options,
                                                   .clients = static_cast<double>(clients),
                                                   .curvature = at_edge * (1 - at_edge)});
}

}  // namespace hanse
