#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "hanse/rules/bandit/logistic.hpp"
#include "rules/bandit/reference.hpp"

namespace hanse {
namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

double logistic(double z) { return 1 / (1 + std::exp(-z)); }

struct Sample {
  Vector x;
  double y;
};

// The point of |theta| <= radius nearest in the norm of a, by bisection of the multiplier.
Vector nearest_inside(const Matrix& a, const Vector& theta, double radius) {
  if (theta.norm() <= radius) return theta;
  const auto at = [&](double mu) -> Vector {
    return (a + mu * Matrix::Identity(a.rows(), a.cols())).fullPivLu().solve(a * theta);
  };
  double low = 0, high = 1;
  while (at(high).norm() > radius) high *= 2;
  for (int i = 0; i < 200; ++i)
    (at((low + high) / 2).norm() > radius ? low : high) = (low + high) / 2;
  return at(high);
}

struct Client {
  Matrix a, da;
  Vector b, theta;
  double own = 0, newton = 0, local = 0, joint = 0, squares = 0;
};

// Section by section from the formulas, over every pull that was made.
class Literal {
 public:
  Literal(const TestBandit& bandit, const UcbOptions& o) : bandit_(bandit), o_(o) {
    c_ = logistic(o.radius) * (1 - logistic(o.radius));
    const auto d = bandit.dimension;
    Client client{Matrix::Zero(d, d), Matrix::Zero(d, d), Vector::Zero(d), Vector::Zero(d)};
    client.newton = c_ * o.lambda * o.radius * o.radius / 2;
    client.local = local_of(client.newton);
    clients_.assign(static_cast<std::size_t>(bandit.clients), client);
    global_ = prior();
  }

  Play play() {
    Play play;
    const Eigen::Map<const Matrix> arms(bandit_.features.data(), bandit_.dimension, bandit_.arms);
    for (int64_t t = 1; t <= bandit_.clients * bandit_.rounds; ++t) {
      Client& i = clients_[static_cast<std::size_t>((t - 1) % bandit_.clients)];
      const int64_t arm = choose(i, arms);
      const Vector x = arms.col(arm);
      const double y = bandit_.values[static_cast<std::size_t>(arm)] +
                       bandit_.noise[static_cast<std::size_t>(t - 1)];
      play.picks.push_back(arm);
      i.a += x * x.transpose();
      i.da += x * x.transpose();
      i.own += 1;
      data_.push_back({x, y});
      const Matrix known = i.a + prior();
      if (i.own * std::log(known.determinant() / (known - i.da).determinant()) > o_.gamma) {
        play.syncs.push_back(t);
        play.scalars += synchronize();
      } else {
        newton_step(i, known, x, y);
      }
    }
    return play;
  }

 private:
  Matrix prior() const {
    return o_.lambda / c_ * Matrix::Identity(bandit_.dimension, bandit_.dimension);
  }

  double local_of(double newton) const {
    const double r = o_.sigma;
    return 1 + 4 * newton / c_ +
           8 * r * r / c_ / c_ *
               std::log(
                   static_cast<double>(bandit_.clients) / o_.delta *
                   std::sqrt(4 + 8 * newton / c_ +
                             64 * r * r * r * r / (4 * c_ * c_ * c_ * c_ * o_.delta * o_.delta)));
  }

  int64_t choose(const Client& i, const Matrix& arms) const {
    const Matrix inverse = (i.a + prior()).inverse();
    const Vector ridge = inverse * i.b;
    const double alpha = std::sqrt(o_.lambda / c_ * o_.radius * o_.radius + i.local + i.joint -
                                   i.squares + ridge.dot(i.b));
    int64_t best = 0;
    double most = -INFINITY;
    for (int64_t a = 0; a < arms.cols(); ++a) {
      const Vector x = arms.col(a);
      const double bound = x.dot(ridge) + o_.width * alpha * std::sqrt(x.dot(inverse * x));
      if (bound > most + 1e-12) {
        most = bound;
        best = a;
      }
    }
    return best;
  }

  void newton_step(Client& i, const Matrix& known, const Vector& x, double y) const {
    const double z = x.dot(i.theta);
    i.b += z * x;
    i.squares += z * z;
    const double g = logistic(z) - y;
    const Vector direction = known.inverse() * x;
    i.theta = nearest_inside(known, i.theta - g / c_ * direction, o_.radius);
    i.newton += g * g * x.dot(direction) / (2 * c_);
    i.local = local_of(i.newton);
  }

  double synchronize() {
    const auto d = static_cast<double>(bandit_.dimension);
    const auto n = static_cast<double>(data_.size());
    for (const Client& client : clients_) global_ += client.da;
    Vector theta = Vector::Zero(bandit_.dimension), y = theta, gradient = theta;
    double steps = 0;
    for (double l = 1;; ++steps) {
      gradient = o_.lambda * theta;
      for (const Sample& s : data_) gradient += (logistic(s.x.dot(theta)) - s.y) * s.x;
      gradient /= n;
      if (gradient.norm() <= std::sqrt(2 * o_.lambda / (n * n * n)) || steps >= 2 * n) break;
      const Vector next = theta - 0.1 / (0.25 + o_.lambda / n) * gradient;
      const double after = (1 + std::sqrt(1 + 4 * l * l)) / 2;
      theta = (1 - (1 - l) / after) * next + (1 - l) / after * y;
      y = next;
      l = after;
    }
    const double b1 = o_.lambda / 2 + 1 / n;
    const double w =
        std::sqrt(gradient.dot(global_ * gradient)) / c_ +
        o_.sigma / c_ *
            std::sqrt(d * std::log(1 + n * c_ / (d * o_.lambda)) + 2 * std::log(1 / o_.delta)) +
        std::sqrt(o_.lambda / c_) * o_.radius;
    const double l = std::log(1 / o_.delta) + d / 2 * std::log(1 + (1 + n) / d);
    double squares = 0;
    for (const Sample& s : data_) squares += s.x.dot(theta) * s.x.dot(theta);
    for (Client& client : clients_) {
      client.a = global_ - prior();
      client.b = client.a * theta;
      client.theta = theta;
      client.da.setZero();
      client.own = 0;
      client.squares = squares;
      client.newton = client.local = w * w / (2 * c_);
      client.joint =
          8 * o_.sigma * o_.sigma / c_ / c_ * l + b1 +
          4 * o_.sigma / c_ * std::sqrt(2 * l) * (theta.norm() + o_.radius + std::sqrt(b1));
    }
    const auto clients = static_cast<double>(bandit_.clients);
    return clients * (d * d + 1) + 2 * clients * d * steps + clients * (d * d + d + 1);
  }

  const TestBandit& bandit_;
  UcbOptions o_;
  double c_;
  std::vector<Client> clients_;
  std::vector<Sample> data_;
  Matrix global_;
};

// Shares of reward, and noise that leaves [0, 1].
TestBandit logistic_bandit(int64_t arms, int64_t dimension, uint64_t seed) {
  TestBandit bandit = random_bandit(4, 30, arms, dimension, seed);
  for (double& value : bandit.values) value = logistic(value);
  for (double& noise : bandit.noise) noise *= 3;
  return bandit;
}

struct Case {
  double gamma;
  double radius;
  double width;
};

class AgainstTheFormulas : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Logistic, AgainstTheFormulas,
                         testing::Values(Case{0, 1, 0.1}, Case{0.4, 1, 0.1}, Case{3, 1, 0.02},
                                         Case{3, 0.2, 0.01}, Case{8, 3, 0.1}, Case{1e9, 1, 0.02},
                                         Case{1e9, 0.2, 0.01}));

// More arms than features, and fewer, where sums are kept in the span of the arms.
TEST_P(AgainstTheFormulas, PlaysTheSame) {
  for (const auto& [arms, dimension] : {std::pair<int64_t, int64_t>{9, 3}, {4, 6}}) {
    const TestBandit bandit = logistic_bandit(arms, dimension, 40);
    const UcbOptions options{.lambda = 0.7,
                             .gamma = GetParam().gamma,
                             .sigma = 0.3,
                             .delta = 0.05,
                             .radius = GetParam().radius,
                             .width = GetParam().width};
    const Play expected = Literal(bandit, options).play();
    const auto features = std::make_shared<const ArmFeatures>(
        bandit.features, std::vector<double>(bandit.values.size()), StatisticsForm::kPerArm);
    const Play found = play_policy(*make_logistic_policy(features, options, 4), bandit);
    EXPECT_EQ(found.picks, expected.picks);
    EXPECT_EQ(found.syncs, expected.syncs);
    EXPECT_EQ(found.scalars, expected.scalars);
    EXPECT_EQ(expected.syncs.empty(), GetParam().gamma == 1e9);
    EXPECT_GT(std::set<int64_t>(expected.picks.begin(), expected.picks.end()).size(), 1U);
  }
}

// The estimate of the model file is the fit of all pulls.
TEST(Logistic, EstimatesTheJointFit) {
  const auto features = std::make_shared<const ArmFeatures>(
      std::vector<double>{1, 0, 0, 1}, std::vector<double>{0, 0}, StatisticsForm::kPerArm);
  const auto policy = make_logistic_policy(features, {.lambda = 1}, 2);
  // 400 pulls of arm 0 with mean reward 0.75: 400 (s(t) - 0.75) + t = 0.
  const std::vector<double> row{400, 0, 300, 0};
  const auto theta = policy->estimate(row, 0);
  EXPECT_NEAR(400 * (logistic(theta[0]) - 0.75) + theta[0], 0, 400 * std::sqrt(2.0 / 6.4e7));
  EXPECT_EQ(theta[1], 0);
}

}  // namespace
}  // namespace hanse
