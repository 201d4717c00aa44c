#include <algorithm>
#include <cmath>
#include <memory>

#include <Eigen/Dense>
#include <gtest/gtest.h>

#include "client/support.hpp"
#include "hanse/client/smoothness.hpp"
#include "support/errors.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

using Vector = Eigen::VectorXd;
using Matrix = Eigen::MatrixXd;

ModelOptions linear(const std::string& loss, bool bias) {
  return {.kind = "linear", .loss = loss, .bias = bias};
}

// n samples of d features, each feature on a scale of its own; labels 0, 1, 0, ...
Samples random_samples(int64_t n, int64_t d, RandomStream& random) {
  Samples samples;
  for (int64_t i = 0; i < n; ++i) {
    std::vector<float>& x = samples.x.emplace_back();
    for (int64_t j = 0; j < d; ++j) {
      x.push_back(static_cast<float>(random.normal() / static_cast<double>(1 + j) + 0.2));
    }
    samples.y.push_back(static_cast<float>(i % 2));
  }
  return samples;
}

// 1/n sum x x^T, x with a 1 appended with a bias.
Matrix second_moment(const Samples& samples, bool bias) {
  const auto d = static_cast<Eigen::Index>(samples.x.front().size());
  Matrix sum = Matrix::Zero(d + bias, d + bias);
  for (const auto& sample : samples.x) {
    Vector x = Vector::Ones(d + bias);
    for (Eigen::Index j = 0; j < d; ++j)
      x[j] = static_cast<double>(sample[static_cast<std::size_t>(j)]);
    sum += x * x.transpose();
  }
  return sum / static_cast<double>(samples.x.size());
}

double largest_eigenvalue(const Matrix& matrix) {
  return Eigen::SelfAdjointEigenSolver<Matrix>(matrix).eigenvalues().maxCoeff();
}

TEST(Smoothness, IsTheLargestEigenvalue) {
  RandomStream random(4, Purpose::kData);
  for (const int64_t d : {1, 2, 7, 8, 9, 33}) {
    std::vector<Samples> clients;
    for (const int64_t n : {1, 2, 5, 64}) clients.push_back(random_samples(n, d, random));
    const auto comm = make_single_communicator();
    const Federation federation = make_federation(*comm, clients);
    for (const bool bias : {false, true}) {
      const auto constants = smoothness_constants(federation, linear("squared-error", bias));
      ASSERT_EQ(constants.size(), clients.size());
      for (std::size_t c = 0; c < clients.size(); ++c) {
        const double expected = largest_eigenvalue(second_moment(clients[c], bias));
        EXPECT_NEAR(constants[c], expected, 3e-9 * expected) << "d " << d << " client " << c;
      }
    }
  }
}

TEST(Smoothness, ClosedForms) {
  const std::vector<Samples> clients{
      {{{3, 4}}, {1}},                          // one sample: |x|^2
      {{{0, 0}, {0, 0}}, {1, 2}},               // nothing
      {{{2, 0}, {0, 2}}, {1, 2}},               // a double eigenvalue
      {{{1, -1}, {-1, 1}, {1, 1}}, {1, 2, 3}},  // (1, -1) has 4/3, (1, 1) has 2/3
  };
  const auto comm = make_single_communicator();
  const Federation federation = make_federation(*comm, clients);
  const auto plain = smoothness_constants(federation, linear("squared-error", false));
  EXPECT_NEAR(plain[0], 25, 1e-7);
  EXPECT_EQ(plain[1], 0);
  EXPECT_NEAR(plain[2], 2, 1e-9);
  EXPECT_NEAR(plain[3], 4.0 / 3, 1e-8);
  const auto biased = smoothness_constants(federation, linear("squared-error", true));
  EXPECT_NEAR(biased[0], 26, 1e-7);
  EXPECT_NEAR(biased[1], 1, 1e-9);
}

// Two eigenvalues a thousandth apart: the iteration is stopped, nearer to the right one.
TEST(Smoothness, CloseEigenvalues) {
  const std::vector<Samples> clients{{{{1, 0}, {0, 1.0005F}}, {1, 2}}};
  const auto comm = make_single_communicator();
  const Federation federation = make_federation(*comm, clients);
  const double expected = std::pow(static_cast<double>(1.0005F), 2) / 2;
  EXPECT_NEAR(smoothness_constants(federation, linear("squared-error", false))[0], expected,
              3e-4 * expected);
}

// Images, stored as bytes: the non-zero eigenvalues are those of X X^T / n.
TEST(Smoothness, Images) {
  DataOptions data;
  data.kind = "random";
  data.shape = {1, 28, 28};
  data.test_fraction = 0.25;
  FederationOptions options;
  options.clients = 3;
  options.samples = 12;
  const auto comm = make_single_communicator();
  const Federation federation = Federation::load(data, options, 5, *comm);
  const auto constants = smoothness_constants(federation, linear("cross-entropy", true));
  for (int64_t client = 0; client < 3; ++client) {
    const SampleRange range = federation.train(client);
    const int64_t d = federation.sample_values();
    std::vector<float> samples(static_cast<std::size_t>(range.size() * d));
    federation.copy(range, samples.data());
    using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const Matrix x = Eigen::Map<const Rows>(samples.data(), range.size(), d).cast<double>();
    const Matrix gram = (x * x.transpose()).array() + 1.0;
    const double expected = largest_eigenvalue(gram) / static_cast<double>(range.size()) / 2;
    EXPECT_NEAR(constants[static_cast<std::size_t>(client)], expected, 3e-9 * expected);
  }
}

// The gradient of a model at one client's samples, in float64.
struct Gradient {
  Gradient(const Federation& federation, const ModelOptions& options)
      : model(make_model(options, federation.sample_shape(), federation.classes())) {
    const SampleRange range = federation.train(0);
    features.resize(static_cast<std::size_t>(range.size() * federation.sample_values()));
    federation.copy(range, features.data());
    batch = {.features = features.data(),
             .labels = federation.labels().data(),
             .targets = federation.targets().data(),
             .rows = range.size()};
  }

  Vector at(const Vector& w) const {
    const Eigen::VectorXf row = w.cast<float>();
    Eigen::VectorXf gradient(row.size());
    RandomStream noise(0, Purpose::kDropout);
    const auto size = static_cast<std::size_t>(row.size());
    model->loss_and_gradient({row.data(), size}, batch, noise, {gradient.data(), size});
    return gradient.cast<double>();
  }

  std::unique_ptr<Model> model;
  std::vector<float> features;
  Batch batch;
};

// The slope of the model's own gradient around `w` along `v`.
double slope(const Gradient& gradient, const Vector& w, const Vector& v) {
  constexpr double kStep = 0.01;
  const Vector unit = v / v.norm();
  return (gradient.at(w + kStep * unit) - gradient.at(w - kStep * unit)).norm() / (2 * kStep);
}

// L is a bound on the change of the model's gradient, and no larger than needed: with two classes
// all losses reach it at w = 0 along the first eigenvector.
TEST(Smoothness, BoundsTheModelsGradientAndIsReached) {
  constexpr int64_t kFeatures = 3;
  RandomStream random(8, Purpose::kData);
  const std::vector<Samples> clients{random_samples(9, kFeatures, random)};
  const auto comm = make_single_communicator();
  for (const std::string loss : {"squared-error", "binary-logistic", "cross-entropy"}) {
    const Federation federation =
        make_federation(*comm, clients, loss == "squared-error" ? "regression" : "classification");
    const ModelOptions options = linear(loss, true);
    const double bound = smoothness_constants(federation, options)[0];
    const Gradient gradient(federation, options);
    const Eigen::SelfAdjointEigenSolver<Matrix> solver(second_moment(clients[0], true));
    const Vector first = solver.eigenvectors().col(kFeatures);
    const auto size = static_cast<Eigen::Index>(gradient.model->n_params());
    Vector v = first;
    if (loss == "cross-entropy") {  // the row: W [2, 3], b [2]; class 1 against class 0
      v.resize(size);
      v << first.head(kFeatures), -first.head(kFeatures), first[kFeatures], -first[kFeatures];
    }
    EXPECT_NEAR(slope(gradient, Vector::Zero(size), v), bound, 1e-3 * bound) << loss;
    for (int trial = 0; trial < 50; ++trial) {
      const auto number = [&] { return random.normal(); };
      const Vector w = Vector::NullaryExpr(size, number);
      const Vector direction = Vector::NullaryExpr(size, number);
      EXPECT_LE(slope(gradient, w, direction), bound * (1 + 1e-3)) << loss;
    }
  }
}

TEST(Smoothness, NeedsALinearModel) {
  const auto comm = make_single_communicator();
  const Federation federation = make_federation(*comm, {Samples{{{1}}, {1}}});
  expect_error<InvalidArgument>(
      [&] { smoothness_constants(federation, {.kind = "mlp", .loss = "squared-error"}); },
      {"mlp", "(sampler.kind)", "hint: ", "lipschitz"});
}

}  // namespace
}  // namespace hanse
