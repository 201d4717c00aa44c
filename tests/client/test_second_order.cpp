// FedNew and FedNL, one participation at a time, against their formulas in float64.
#include <cmath>
#include <memory>

#include <Eigen/Dense>
#include <gtest/gtest.h>

#include "client/conjugate_gradients.hpp"
#include "client/regression.hpp"
#include "hanse/client/second_order.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kPenalty = 0.3;  // client.weight-decay

// A client of more than one chunk of samples, one of a single sample, and a small one; the second
// feature is twice as large as the others.
std::vector<Samples> uneven_clients() {
  auto clients = random_clients({300, 1, 8});
  for (Samples& samples : clients) {
    for (Row& x : samples.x) x[1] *= 2;
  }
  return clients;
}

VectorXd vector_of(const Row& row) {
  return Eigen::Map<const Eigen::VectorXf>(row.data(), static_cast<Eigen::Index>(row.size()))
      .cast<double>();
}

// The second derivatives of f(w) = mean (<w, x> - y)^2 / 2 + penalty/2 |w|^2.
MatrixXd hessian(const Samples& samples) {
  MatrixXd h = kPenalty * MatrixXd::Identity(3, 3);
  const auto n = static_cast<double>(samples.x.size());
  for (const Row& x : samples.x) h += vector_of(x) * vector_of(x).transpose() / n;
  return h;
}

VectorXd gradient(const Regression& r, std::size_t client, const VectorXd& w) {
  Numbers g;
  r.loss_and_gradient(client, {w.begin(), w.end()}, g);
  return kPenalty * w + Eigen::Map<const VectorXd>(g.data(), w.size());
}

ClientOptions options_of(const std::string& kind) {
  ClientOptions options{{}, {.weight_decay = kPenalty}, {.kind = kind}};
  options.second_order.alpha = 0.7;
  options.second_order.rho = 0.4;
  options.second_order.tolerance = 1e-9;
  return options;
}

void expect_close(std::span<const float> actual, const VectorXd& expected, double tolerance) {
  ASSERT_EQ(static_cast<Eigen::Index>(actual.size()), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[static_cast<Eigen::Index>(i)], tolerance) << i;
  }
}

VectorXd packed(const MatrixXd& matrix) {
  VectorXd result(matrix.rows() * (matrix.rows() + 1) / 2);
  Eigen::Index next = 0;
  for (Eigen::Index i = 0; i < matrix.rows(); ++i) {
    for (Eigen::Index j = i; j < matrix.cols(); ++j) result[next++] = matrix(i, j);
  }
  return result;
}

TEST(ConjugateGradients, SolvesInAsManyStepsAsThereAreDimensions) {
  const MatrixXd root = MatrixXd::Random(7, 7);
  const MatrixXd a = root * root.transpose() + MatrixXd::Identity(7, 7);
  const LinearOperator apply = [&](std::span<const double> v, std::span<double> out) {
    Eigen::Map<VectorXd>(out.data(), 7) = a * Eigen::Map<const VectorXd>(v.data(), 7);
  };
  const VectorXd b = VectorXd::Random(7), solution = a.ldlt().solve(b);
  const std::span<const double> target(b.data(), 7);
  std::vector<double> x(7);
  EXPECT_LE(conjugate_gradients(apply, target, 1e-10, 100, x), 9);
  for (Eigen::Index i = 0; i < 7; ++i)
    EXPECT_NEAR(x[static_cast<std::size_t>(i)], solution[i], 1e-8);
  // From the solution itself: one product finds that nothing is left to do.
  EXPECT_EQ(conjugate_gradients(apply, target, 1e-6, 100, x), 1);
  std::vector<double> bounded(7);
  EXPECT_EQ(conjugate_gradients(apply, target, 1e-10, 2, bounded), 2);
  const std::vector<double> zero(7);
  std::vector<double> stays(7);
  EXPECT_EQ(conjugate_gradients(apply, zero, 1e-10, 100, stays), 0);
  EXPECT_EQ(stays, zero);
}

TEST(ConjugateGradients, StopsAtNegativeCurvature) {
  const LinearOperator negative = [](std::span<const double> v, std::span<double> out) {
    out[0] = v[0];
    out[1] = -v[1];
  };
  std::vector<double> x(2);
  const std::vector<double> b{1, 2};
  conjugate_gradients(negative, b, 1e-10, 100, x);
  EXPECT_EQ(x, (std::vector<double>{0, 0}));
}

TEST(FedNew, FollowsItsFormulas) {
  const Regression r(uneven_clients());
  const ClientOptions options = options_of("fednew");
  const auto update = make_fednew(options, r.federation, *r.model);
  EXPECT_EQ(update->control_width(), 3);
  EXPECT_EQ(update->state_width(), 6);
  const Row theta{1, -2, 0.5}, mean{0.2F, -0.1F, 0.4F};
  const VectorXd y = vector_of(mean);
  for (std::size_t client = 0; client < r.clients.size(); ++client) {
    OneRound mine(*update, theta);
    mine.control = mean;
    mine.state = {0.3F, -0.7F, 1.1F, 0.5F, 0.25F, -0.6F};
    const VectorXd own = vector_of({0.5F, 0.25F, -0.6F});
    const VectorXd dual = vector_of({0.3F, -0.7F, 1.1F}) + 0.4 * (own - y);
    const VectorXd g = gradient(r, client, vector_of(theta));
    const MatrixXd a = hessian(r.clients[client]) + (0.7 + 0.4) * MatrixXd::Identity(3, 3);
    const VectorXd expected = a.ldlt().solve(g - dual + 0.4 * y);
    mine.train(*update, static_cast<int64_t>(client));
    const std::span<const float> state = mine.state;
    expect_close(state.first(3), dual, 1e-6);
    expect_close(state.subspan(3), expected, 2e-6);
    expect_close(mine.change, expected - y, 2e-6);
    expect_close(mine.row, -expected, 2e-6);
    EXPECT_EQ(mine.outcome.samples, static_cast<int64_t>(r.clients[client].y.size()));
  }
}

// The loss told is that of the samples, without the penalty.
TEST(SecondOrder, TellsTheMeanLoss) {
  const Regression r(uneven_clients());
  for (const std::string kind : {"fednew", "fednl"}) {
    const auto update = kind == "fednew" ? make_fednew(options_of(kind), r.federation, *r.model)
                                         : make_fednl(options_of(kind), r.federation, *r.model);
    OneRound mine(*update, {1, -2, 0.5});
    mine.train(*update, 0);
    Numbers unused;
    const double loss = r.loss_and_gradient(0, {1, -2, 0.5}, unused);
    EXPECT_NEAR(mine.outcome.loss, loss, 1e-5 * loss);
  }
}

TEST(FedNl, SendsTheHessianOnceAndThenItsCorrections) {
  const Regression r(uneven_clients());
  const auto update = make_fednl(options_of("fednl"), r.federation, *r.model);
  EXPECT_FALSE(update->control_returns());
  EXPECT_EQ(update->state_width(), 7);
  for (std::size_t client = 0; client < r.clients.size(); ++client) {
    OneRound mine(*update, {1, -2, 0.5});
    mine.train(*update, static_cast<int64_t>(client));
    const std::span<const float> change = mine.change;
    expect_close(change.first(6), packed(hessian(r.clients[client])), 1e-5);
    EXPECT_EQ(mine.change.back(), 0);
    expect_close(mine.row, -gradient(r, client, vector_of({1, -2, 0.5})), 1e-4);
    // A quadratic's Hessian is the same everywhere.
    mine.row = {5, 5, 5};
    mine.train(*update, static_cast<int64_t>(client));
    expect_close(change, VectorXd::Zero(7), 1e-5);
  }
}

TEST(FedNl, LearnsTheHessianEigenpairByEigenpair) {
  const Regression r(uneven_clients());
  ClientOptions options = options_of("fednl");
  options.second_order.hessian_start = HessianStart::kZero;
  const auto update = make_fednl(options, r.federation, *r.model);
  OneRound mine(*update, {1, -2, 0.5});
  const Eigen::SelfAdjointEigenSolver<MatrixXd> eigen(hessian(r.clients[2]));
  MatrixXd rest = hessian(r.clients[2]), learned = MatrixXd::Zero(3, 3);
  for (Eigen::Index k = 3; k-- > 0;) {  // the largest first
    const VectorXd q = eigen.eigenvectors().col(k);
    const MatrixXd pair = eigen.eigenvalues()[k] * q * q.transpose();
    mine.row = {1, -2, 0.5};
    mine.train(*update, 2);
    const std::span<const float> change = mine.change, state = mine.state;
    expect_close(change.first(6), packed(pair), 1e-5);
    EXPECT_NEAR(mine.change.back(), rest.norm(), 1e-5);
    rest -= pair;
    learned += pair;
    expect_close(state.first(6), packed(learned), 1e-5);
  }
}

// H moves by hessian-rate times the k largest entries.
TEST(FedNl, TopEntriesAtARate) {
  const Regression r(uneven_clients());
  ClientOptions options = options_of("fednl");
  options.second_order.hessian_start = HessianStart::kZero;
  options.second_order.compressor = Compressor::kTop;
  options.second_order.top = 1;
  options.second_order.hessian_rate = 0.5;
  const auto update = make_fednl(options, r.federation, *r.model);
  OneRound mine(*update, {0, 0, 0});
  mine.train(*update, 0);
  const VectorXd h = packed(hessian(r.clients[0]));  // the second feature is twice as large
  VectorXd expected = VectorXd::Zero(7);
  expected[3] = 0.5 * h[3];
  expected[6] = hessian(r.clients[0]).norm();
  EXPECT_GT(h[3], 2 * h[0]);
  expect_close(mine.change, expected, 1e-5);
}

TEST(SecondOrder, IsAPureFunctionOfTheTask) {
  const Regression r(uneven_clients());
  for (const std::string kind : {"fednew", "fednl"}) {
    const auto update = kind == "fednew" ? make_fednew(options_of(kind), r.federation, *r.model)
                                         : make_fednl(options_of(kind), r.federation, *r.model);
    expect_pure_function(*update);
  }
}

TEST(SecondOrder, RefusesModelsWithoutAHessianAndTooLargeOnes) {
  const Regression r(uneven_clients());
  const auto random_loss = make_model({.kind = "cnn-cifar"}, {3, 8, 8}, 5);
  expect_error<InvalidArgument>(
      [&] { make_fednew(options_of("fednew"), r.federation, *random_loss); },
      {"fednew", "Hessian", "(client.update)", "hint: "});
  const auto large = make_model({.kind = "linear", .loss = "binary-logistic"}, {2000}, 2);
  expect_error<InvalidArgument>([&] { make_fednl(options_of("fednl"), r.federation, *large); },
                                {"2000", "2001", "(client.update)", "fednew"});
}

}  // namespace
}  // namespace hanse
