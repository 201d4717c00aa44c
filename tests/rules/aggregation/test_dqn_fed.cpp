// DQN-Fed's server step against the paper's Gram-Schmidt form, its rates against full BFGS, and
// what it does with gradients that leave no good step.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include <Eigen/Dense>
#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"
#include "hanse/rules/aggregation/quasi_newton.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

MatrixXd random_matrix(Index rows, Index columns, unsigned seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  return MatrixXd::NullaryExpr(rows, columns, [&] { return normal(generator); });
}

std::vector<double> flat(const MatrixXd& m) {
  std::vector<double> values;
  for (Index i = 0; i < m.rows(); ++i) {
    for (Index j = 0; j < m.cols(); ++j) values.push_back(m(i, j));
  }
  return values;
}

std::vector<double> values(const VectorXd& v) { return {v.begin(), v.end()}; }

VectorXd step_of(const MatrixXd& gradients, const Mix& solution) {
  const Eigen::Map<const VectorXd> c(solution.coefficients.data(),
                                     static_cast<Index>(solution.coefficients.size()));
  return gradients.transpose() * c;
}

// eta d of eqs. 7, 8, 12, 16 and 17, clients (rows) in the order given.
VectorXd gram_schmidt_step(const MatrixXd& gradients, const VectorXd& rates) {
  std::vector<VectorXd> orthogonal;
  double eta = 0;
  for (Index k = 0; k < gradients.rows(); ++k) {
    VectorXd residual = gradients.row(k);
    double shortfall = rates[k];
    for (const VectorXd& g : orthogonal) {
      const double share = gradients.row(k).dot(g) / g.dot(g);
      residual -= share * g;
      shortfall -= share;
    }
    orthogonal.push_back(residual / shortfall);  // eq. 8
    eta += 1 / orthogonal.back().squaredNorm();  // eq. 17
  }
  VectorXd direction = VectorXd::Zero(gradients.cols());
  for (const VectorXd& g : orthogonal) {
    direction += g / g.squaredNorm() / eta;  // eq. 12: lambda_k ~ 1/|gt_k|^2
  }
  return eta * direction;
}

TEST(SolveRates, IsThePapersStepInAnyOrderOfClients) {
  for (const Index k : {1, 2, 3, 4, 7}) {
    const MatrixXd gradients = random_matrix(k, 23, static_cast<unsigned>(k));
    const VectorXd rates = random_matrix(k, 1, 50 + static_cast<unsigned>(k)).cwiseAbs();
    const MatrixXd gram = gradients * gradients.transpose();
    const Mix solution = solve_rates(flat(gram), values(rates));
    const VectorXd x = step_of(gradients, solution);
    EXPECT_EQ(solution.direction.ridge, 0);
    EXPECT_NEAR(solution.direction.squared_norm, x.squaredNorm(), 1e-10 * x.squaredNorm());
    EXPECT_LT((gradients * x - rates).norm(), 1e-11 * rates.norm());
    std::vector<Index> order(static_cast<std::size_t>(k));
    std::iota(order.begin(), order.end(), 0);
    for (int repeat = 0; repeat < 24; ++repeat) {
      const VectorXd literal = gram_schmidt_step(gradients(order, Eigen::all), rates(order));
      EXPECT_LT((literal - x).norm(), 1e-10 * x.norm()) << k << " clients, order " << repeat;
      std::next_permutation(order.begin(), order.end());
    }
  }
}

// Nothing shorter has these products: x lies in the span of the gradients.
TEST(SolveRates, IsTheShortestStepOfItsRates) {
  const MatrixXd gradients = random_matrix(3, 10, 4);
  const std::vector<double> rates{1, 2, 0.5};
  const VectorXd x =
      step_of(gradients, solve_rates(flat(gradients * gradients.transpose()), rates));
  const MatrixXd kernel = gradients.fullPivLu().kernel();
  ASSERT_EQ(kernel.cols(), 7);
  EXPECT_LT((kernel.transpose() * x).norm(), 1e-12);
}

TEST(SolveRates, ScalesOfClientsDoNotAskForARidge) {
  MatrixXd gradients = random_matrix(3, 12, 9);
  gradients.row(1) *= 1e-7;
  gradients.row(2) *= 1e5;
  const std::vector<double> rates{1, 1e-8, 3};
  const Mix solution = solve_rates(flat(gradients * gradients.transpose()), rates);
  EXPECT_EQ(solution.direction.ridge, 0);
  const VectorXd products = gradients * step_of(gradients, solution);
  for (Index i = 0; i < 3; ++i) {
    EXPECT_NEAR(products[i] / rates[static_cast<std::size_t>(i)], 1, 1e-8);
  }
}

TEST(SolveRates, ZeroGradientsAreDropped) {
  MatrixXd gradients = random_matrix(4, 6, 11);
  gradients.row(2).setZero();
  const Mix solution =
      solve_rates(flat(gradients * gradients.transpose()), std::vector<double>{1, 1, 5, 1});
  EXPECT_EQ(solution.direction.dropped, 1);
  EXPECT_EQ(solution.coefficients[2], 0);
  const VectorXd products = gradients * step_of(gradients, solution);
  for (const Index i : {0, 1, 3}) EXPECT_NEAR(products[i], 1, 1e-12);

  const Mix nothing = solve_rates(std::vector<double>(4), std::vector<double>{1, 1});
  EXPECT_EQ(nothing.direction.dropped, 2);
  EXPECT_EQ(nothing.coefficients, std::vector<double>(2));
  EXPECT_EQ(nothing.direction.squared_norm, 0);
}

// Equal gradients of unlike rates: their mean is served, by weights that float32 rows can bear.
TEST(SolveRates, ParallelGradientsGetARidge) {
  const std::vector<double> gram{1, 1, 1, 1};
  const Mix solution = solve_rates(gram, std::vector<double>{1, 3});
  EXPECT_GT(solution.direction.ridge, 0);
  EXPECT_LT(solution.direction.ridge, 1e-2);
  EXPECT_NEAR(solution.coefficients[0] + solution.coefficients[1], 2, 1e-2);
  EXPECT_LT(std::abs(solution.coefficients[0]), 1e5);
  const StepView view = view_step(gram, solution.coefficients, 2);
  EXPECT_EQ(view.conflicts, 0);
  EXPECT_NEAR(view.products[0], 2, 1e-2);
  EXPECT_NEAR(view.squared_norm, solution.direction.squared_norm, 1e-8);
}

// Opposite gradients: a Pareto-stationary point; whatever helps one harms the other.
TEST(SolveRates, OppositeGradientsConflict) {
  const std::vector<double> gram{1, -1, -1, 1};
  const Mix same = solve_rates(gram, std::vector<double>{1, 1});
  EXPECT_NEAR(same.direction.squared_norm, 0, 1e-12);
  const Mix unlike = solve_rates(gram, std::vector<double>{3, 1});
  EXPECT_GE(view_step(gram, unlike.coefficients, 2).conflicts, 1);
}

// More clients than parameters: G has rank P.
TEST(SolveRates, MoreClientsThanParameters) {
  const MatrixXd gradients = random_matrix(6, 2, 5).cwiseAbs();  // all in one quadrant
  const Mix solution =
      solve_rates(flat(gradients * gradients.transpose()), std::vector<double>(6, 1));
  EXPECT_GT(solution.direction.ridge, 0);
  const auto x = step_of(gradients, solution);
  EXPECT_TRUE(x.allFinite());
  EXPECT_LT(x.norm(), 1e3);
}

TEST(SolveRates, NoGramMatrixIsRefused) {
  expect_error<InvalidArgument>(
      [] {
        solve_rates(std::vector<double>{1, NAN, NAN, 1}, std::vector<double>{1, 1});
      },
      {"no Gram matrix"});
}

TEST(DqnFed, ShortensLongStepsAsAWhole) {
  const std::vector<double> gram{2, 1, 1, 3};
  const std::vector<double> rates{1, 2};
  const std::vector<int64_t> clients{0, 1};
  const std::vector<double> ones{1, 1};
  const RoundReport report{.round = 1,
                           .clients = clients,
                           .lambda = ones,
                           .draw_weights = ones,
                           .gram = gram,
                           .rates = rates};
  const Mix free = make_dqn_fed(0, 0)->mix(report);
  EXPECT_EQ(free.direction.scale, 1);
  EXPECT_NEAR(free.direction.squared_norm, 1.4, 1e-14);  // d^T G^-1 d
  const Mix bound = make_dqn_fed(0.5, 0)->mix(report);
  EXPECT_EQ(bound.coefficients, free.coefficients);
  EXPECT_NEAR(bound.direction.scale, 0.5 / std::sqrt(1.4), 1e-14);
  EXPECT_EQ(make_dqn_fed(2, 0)->mix(report).direction.scale, 1);
}

TEST(DqnFed, AcceptsWhatRaisesNoLoss) {
  const auto rule = make_dqn_fed(0, 3);
  EXPECT_EQ(rule->needs().trials, 3);
  EXPECT_TRUE(rule->needs().losses);
  EXPECT_FALSE(make_dqn_fed(0, 0)->needs().losses);
  const std::vector<double> before{1, 2};
  EXPECT_TRUE(rule->accepts(before, std::vector<double>{1, 1.5}));
  EXPECT_FALSE(rule->accepts(before, std::vector<double>{0.1, 2.1}));
  EXPECT_FALSE(rule->accepts(before, std::vector<double>{1, INFINITY}));
}

// Inverse BFGS, the whole matrix, pair after pair.
double full_bfgs_rate(const std::vector<VectorXd>& s, const std::vector<VectorXd>& y,
                      const VectorXd& g) {
  const Index n = g.size();
  MatrixXd b = MatrixXd::Identity(n, n) * s.back().dot(y.back()) / y.back().squaredNorm();
  for (std::size_t i = 0; i < s.size(); ++i) {
    const double rho = 1 / s[i].dot(y[i]);
    const MatrixXd v = MatrixXd::Identity(n, n) - rho * y[i] * s[i].transpose();
    b = v.transpose() * b * v + rho * s[i] * s[i].transpose();
  }
  return g.dot(b * g);
}

std::vector<double> pair_gram(const std::vector<VectorXd>& s, const std::vector<VectorXd>& y,
                              const VectorXd& g) {
  MatrixXd rows(static_cast<Index>(2 * s.size() + 1), g.size());
  for (std::size_t i = 0; i < s.size(); ++i) {
    rows.row(static_cast<Index>(2 * i)) = s[i];
    rows.row(static_cast<Index>(2 * i + 1)) = y[i];
  }
  rows.row(rows.rows() - 1) = g;
  return flat(rows * rows.transpose());
}

TEST(LbfgsRate, IsThatOfTheWholeMatrix) {
  for (const Index n : {1, 5, 14}) {
    const MatrixXd root = random_matrix(n, n, 21);
    const MatrixXd hessian = root * root.transpose() + MatrixXd::Identity(n, n);
    for (const std::size_t m : {1U, 2U, 3U, 10U}) {
      std::vector<VectorXd> s, y;
      for (std::size_t i = 0; i < m; ++i) {
        s.push_back(random_matrix(n, 1, 100 + static_cast<unsigned>(i)));
        y.push_back(hessian * s.back());
      }
      const VectorXd g = random_matrix(n, 1, 7);
      const double rate = lbfgs_rate(pair_gram(s, y, g), static_cast<int64_t>(m));
      const double full = full_bfgs_rate(s, y, g);
      EXPECT_NEAR(rate, full, 1e-9 * full) << n << " parameters, " << m << " pairs";
      EXPECT_GT(rate, 0);
    }
  }
}

// Pairs along conjugate directions of a quadratic that span the space make B its inverse Hessian.
TEST(LbfgsRate, IsNewtonsAfterConjugatePairs) {
  const Index n = 6;
  const MatrixXd root = random_matrix(n, n, 31);
  const MatrixXd hessian = root * root.transpose() + MatrixXd::Identity(n, n);
  const Eigen::SelfAdjointEigenSolver<MatrixXd> spectrum(hessian);
  std::vector<VectorXd> s, y;
  for (Index i = 0; i < n; ++i) {
    s.push_back(spectrum.eigenvectors().col(i));
    y.push_back(hessian * s.back());
  }
  const VectorXd g = random_matrix(n, 1, 8);
  const double newton = g.dot(hessian.ldlt().solve(g));
  EXPECT_NEAR(lbfgs_rate(pair_gram(s, y, g), n), newton, 1e-10 * newton);
}

TEST(LbfgsRate, PairsNeedCurvature) {
  EXPECT_TRUE(has_curvature(1, 1e-3, 1));
  EXPECT_FALSE(has_curvature(1, 1e-9, 1));
  EXPECT_FALSE(has_curvature(1, -1, 1));
  EXPECT_FALSE(has_curvature(0, 0, 0));
}

TEST(StepView, TellsAnglesAndConflicts) {
  // u_0 = (1, 0), u_1 = (-1, 1), u_2 = (0, 0); x = u_0 + 0.5 u_1 = (0.5, 0.5)
  const std::vector<double> gram{1, -1, 0, -1, 2, 0, 0, 0, 0};
  const StepView view = view_step(gram, std::vector<double>{1, 0.5, 0}, 3);
  EXPECT_NEAR(view.squared_norm, 0.5, 1e-15);
  EXPECT_NEAR(view.angles[0], 45, 1e-12);
  EXPECT_NEAR(view.angles[1], 90, 1e-12);
  EXPECT_TRUE(std::isnan(view.angles[2]));
  EXPECT_EQ(view.conflicts, 1);  // u_1.x = 0
}

}  // namespace
}  // namespace hanse
