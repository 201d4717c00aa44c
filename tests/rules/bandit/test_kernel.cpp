#include <cmath>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/bandit/kernel.hpp"
#include "rules/bandit/reference.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

double kernel(const Vector& a, const Vector& b, double length) {
  return std::exp(-(a - b).squaredNorm() / (2 * length * length));
}

struct Sample {
  Vector x;
  double y;
};

// Points in the columns, in the order in which they were given.
using Points = std::vector<Vector>;

Vector kernels(const Points& points, const Vector& x, double length) {
  Vector k(std::ssize(points));
  for (std::size_t i = 0; i < points.size(); ++i) {
    k[static_cast<Eigen::Index>(i)] = kernel(points[i], x, length);
  }
  return k;
}

Matrix gram(const Points& points, double length) {
  Matrix k(std::ssize(points), std::ssize(points));
  for (std::size_t i = 0; i < points.size(); ++i) {
    k.col(static_cast<Eigen::Index>(i)) = kernels(points, points[i], length);
  }
  return k;
}

struct Posterior {
  double mean;
  double variance;  // sigma^2
};

// The posterior knows all data, and no finite set of arms.
Posterior exact(const std::vector<Sample>& data, const Vector& x, double lambda, double length) {
  Points points;
  Vector y(std::ssize(data));
  for (const Sample& s : data) {
    y[std::ssize(points)] = s.y;
    points.push_back(s.x);
  }
  if (data.empty()) return {0, 1 / lambda};
  const Matrix regularised = gram(points, length) + lambda * Matrix::Identity(y.size(), y.size());
  const Vector k = kernels(points, x, length);
  const auto lu = regularised.fullPivLu();
  return {k.dot(lu.solve(y)), (1 - k.dot(lu.solve(k))) / lambda};
}

// In the dictionary.
class Approximate {
 public:
  Approximate(Points dictionary, double lambda, double length)
      : dictionary_(std::move(dictionary)), lambda_(lambda), length_(length) {
    if (dictionary_.empty()) return;
    const Eigen::SelfAdjointEigenSolver<Matrix> solver(gram(dictionary_, length));
    Vector root = solver.eigenvalues();
    for (double& e : root) e = e > 1e-12 * root.maxCoeff() ? 1 / std::sqrt(e) : 0;
    half_ = solver.eigenvectors() * root.asDiagonal() * solver.eigenvectors().transpose();
  }

  Posterior operator()(const std::vector<Sample>& data, const Vector& x) const {
    if (dictionary_.empty()) return {0, 1 / lambda_};
    Matrix g = Matrix::Zero(half_.rows(), half_.cols());
    Vector h = Vector::Zero(half_.rows());
    for (const Sample& s : data) {
      const Vector z = half_ * kernels(dictionary_, s.x, length_);
      g += z * z.transpose();
      h += s.y * z;
    }
    const Matrix inverse = (g + lambda_ * Matrix::Identity(g.rows(), g.cols())).inverse();
    const Vector z = half_ * kernels(dictionary_, x, length_);
    return {z.dot(inverse * h), (1 - z.dot(g * inverse * z)) / lambda_};
  }

 private:
  Points dictionary_;
  double lambda_, length_;
  Matrix half_;
};

struct Case {
  bool approximate;
  double gamma;
  double length;
  double inclusion = 4;
};

bool holds(const Points& points, const Vector& x) {
  return std::find(points.begin(), points.end(), x) != points.end();
}

// The rule by the paper's sums, with all its data in lists.
Play play_literally(const TestBandit& bandit, const UcbOptions& o, const Case& c,
                    const std::function<double()>& uniform) {
  const Eigen::Map<const Matrix> arms(bandit.features.data(), bandit.dimension, bandit.arms);
  const auto n = static_cast<std::size_t>(bandit.clients);
  const auto clients = static_cast<double>(bandit.clients);
  const auto d = static_cast<double>(bandit.dimension);
  std::vector<std::vector<Sample>> own(n);  // since the start
  std::vector<std::size_t> told(n);         // of these at the last synchronization
  std::vector<Sample> common;               // at the last synchronization
  std::vector<double> evidence(n);
  Points dictionary;
  Approximate view({}, o.lambda, c.length);
  const auto look = [&](const std::vector<Sample>& data, const Vector& x) {
    return c.approximate ? view(data, x) : exact(data, x, o.lambda, c.length);
  };
  Play play;
  for (int64_t t = 1; t <= bandit.clients * bandit.rounds; ++t) {
    const auto i = static_cast<std::size_t>((t - 1) % bandit.clients);
    auto data = common;
    data.insert(data.end(), own[i].begin() + static_cast<int64_t>(told[i]), own[i].end());
    int64_t best = 0;
    double most = -INFINITY;
    for (int64_t a = 0; a < bandit.arms; ++a) {
      const Posterior p = look(data, arms.col(a));
      const double bound = p.mean + o.width * std::sqrt(std::max(0.0, p.variance));
      if (bound > most + 1e-10) {
        most = bound;
        best = a;
      }
    }
    const Vector x = arms.col(best);
    const auto news = static_cast<double>(own[i].size() + 1 - told[i]);
    evidence[i] += c.approximate ? look(common, x).variance : std::log(1 + look(data, x).variance);
    play.picks.push_back(best);
    own[i].push_back({x, bandit.values[static_cast<std::size_t>(best)] +
                             bandit.noise[static_cast<std::size_t>(t - 1)]});
    if (!((c.approximate ? 1 : news) * evidence[i] > o.gamma)) continue;

    play.syncs.push_back(t);
    Points next;
    double uploaded = 0, fresh = 0;
    for (std::size_t j = 0; j < n; ++j) {
      Points mine;
      for (const Sample& s : own[j]) {
        const bool taken =
            !c.approximate || uniform() < std::min(1.0, c.inclusion * look(common, s.x).variance);
        if (taken && !holds(mine, s.x)) mine.push_back(s.x);
      }
      uploaded += static_cast<double>(mine.size());
      fresh += static_cast<double>(own[j].size() - told[j]);
      for (const Vector& x_j : mine) {
        if (!holds(next, x_j)) next.push_back(x_j);
      }
    }
    common.clear();
    for (std::size_t j = 0; j < n; ++j) {
      common.insert(common.end(), own[j].begin(), own[j].end());
      told[j] = own[j].size();
      evidence[j] = 0;
    }
    dictionary = next;
    view = Approximate(dictionary, o.lambda, c.length);
    const auto s = static_cast<double>(dictionary.size());
    play.dictionary.push_back(std::ssize(dictionary));
    play.scalars += c.approximate ? uploaded * d + clients * (s * d + 2 * (s * s + s))
                                  : fresh * (d + 1) * (1 + clients);
  }
  return play;
}

// Two arms lie at one point.
TestBandit kernel_bandit(uint64_t seed) {
  TestBandit bandit = random_bandit(3, 16, 8, 2, seed);
  std::copy_n(bandit.features.begin() + 2, 2, bandit.features.begin() + 10);
  return bandit;
}

class AgainstTheSums : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Kernel, AgainstTheSums,
    testing::Values(Case{false, 0, 1}, Case{false, 3, 0.5}, Case{false, 20, 2}, Case{true, 0, 1, 4},
                    Case{true, 4, 0.5, 0.2}, Case{true, 4, 0.5, 0.02}, Case{true, 12, 0.2, 0.1},
                    Case{true, 4, 1, 0},
                    Case{true, std::numeric_limits<double>::infinity(), 1, 4}));

TEST_P(AgainstTheSums, PlaysTheSame) {
  const Case& c = GetParam();
  const TestBandit bandit = kernel_bandit(7);
  const UcbOptions options{.lambda = 0.3, .gamma = c.gamma, .width = 1.7};
  const Arms arms{bandit.dimension, bandit.features, bandit.values};
  const auto make = c.approximate ? make_dictionary_policy : make_kernel_policy;
  const auto policy = make(arms, options, {.length = c.length, .inclusion = c.inclusion}, 3);
  RandomStream stream(3, Purpose::kArms), same(3, Purpose::kArms);
  const Play expected = play_literally(bandit, options, c, [&] { return stream.uniform(); });
  const Play found = play_policy(*policy, bandit, [&] { return same.uniform(); });
  EXPECT_EQ(found.picks, expected.picks);
  EXPECT_EQ(found.syncs, expected.syncs);
  EXPECT_EQ(found.dictionary, expected.dictionary);
  EXPECT_EQ(found.scalars, expected.scalars);
  EXPECT_EQ(same.next(), stream.next());  // as many numbers were used
  EXPECT_EQ(expected.syncs.empty(), std::isinf(c.gamma));
  const bool blind = c.approximate && (c.inclusion == 0 || std::isinf(c.gamma));
  EXPECT_EQ(std::set<int64_t>(expected.picks.begin(), expected.picks.end()).size() == 1, blind);
}

// Without ever synchronizing, a run of one client: mu of the arms is the regression's.
TEST(Kernel, EstimatesTheMeansOfTheArms) {
  const TestBandit bandit = kernel_bandit(9);
  const Arms arms{bandit.dimension, bandit.features, bandit.values};
  const auto policy = make_kernel_policy(arms, {.lambda = 0.3}, {.length = 0.7}, 1);
  std::vector<double> row(16);
  std::vector<Sample> data;
  for (const auto& [arm, reward] : {std::pair<int64_t, double>{2, 1.5}, {6, -1}, {2, 0.5}}) {
    policy->add({{arm}, {reward}}, 0, row);
    data.push_back({Eigen::Map<const Vector>(bandit.features.data() + 2 * arm, 2), reward});
  }
  const auto means = policy->estimate(row, 0);
  ASSERT_EQ(means.size(), 8U);
  for (int64_t a = 0; a < 8; ++a) {
    const Eigen::Map<const Vector> x(bandit.features.data() + 2 * a, 2);
    EXPECT_NEAR(means[static_cast<std::size_t>(a)], exact(data, x, 0.3, 0.7).mean, 1e-12);
  }
}

TEST(Kernel, RefusesOptionsOutOfRange) {
  const auto check = [](const KernelOptions& options) { return [=] { check_options(options); }; };
  expect_error<InvalidArgument>(check({.length = 0}), {"bandit.kernel-length", "above 0"});
  expect_error<InvalidArgument>(check({.length = -1}), {"bandit.kernel-length"});
  expect_error<InvalidArgument>(check({.length = NAN}), {"bandit.kernel-length"});
  expect_error<InvalidArgument>(check({.inclusion = -1}), {"bandit.inclusion"});
  check_options(KernelOptions{.length = 1e-3, .inclusion = 0});
}

}  // namespace
}  // namespace hanse
