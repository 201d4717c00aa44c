// Hessian-vector products against autograd twice in float64, and against what a Hessian must be.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "reference.hpp"
#include "support.hpp"

namespace hanse {
namespace {

struct HessianCase {
  std::string kind;
  std::vector<int64_t> hidden, shape;
  int64_t classes, rows;
};

std::ostream& operator<<(std::ostream& out, const HessianCase& c) {
  return out << c.kind << " " << c.shape.front() << " B=" << c.rows;
}

// Sizes of one, odd ones, batches above and below the widths.
const std::vector<HessianCase>& dense_cases() {
  static const std::vector<HessianCase> cases = {
      {"linear", {}, {1}, 2, 1},         {"linear", {}, {37}, 3, 257},
      {"linear", {}, {101}, 10, 7},      {"mlp", {1}, {1}, 2, 1},
      {"mlp", {33, 17, 5}, {19}, 7, 13}, {"mlp", {131}, {97}, 6, 1},
      {"mlp", {40, 31}, {77}, 11, 65},
  };
  return cases;
}

const std::vector<HessianCase>& network_cases() {
  static const std::vector<HessianCase> cases = {{"cnn-leaf", {}, {1, 9, 6}, 5, 3},
                                                 {"cnn-mcmahan", {}, {2, 8, 5}, 4, 2},
                                                 {"cnn-byzfl", {}, {1, 16, 17}, 3, 2},
                                                 {"lenet", {}, {1, 28, 28}, 10, 4},
                                                 {"lenet", {}, {2, 13, 15}, 2, 1}};
  return cases;
}

constexpr const char* kLosses[] = {"cross-entropy", "binary-logistic", "squared-error"};

std::vector<float> normal_row(std::size_t size, uint64_t seed) {
  RandomStream random(seed, Purpose::kData);
  std::vector<float> row(size);
  for (float& value : row) value = static_cast<float>(random.normal());
  return row;
}

std::vector<float> product(Model& model, const std::vector<float>& row, const Batch& batch,
                           const std::vector<float>& v) {
  std::vector<float> out(row.size(), std::numeric_limits<float>::quiet_NaN());  // all is written
  model.hessian_vector(row, batch, v, out);
  return out;
}

void expect_matches(const HessianCase& c, const std::string& loss, double tolerance) {
  SCOPED_TRACE(::testing::PrintToString(c) + " " + loss);
  const int64_t classes = classes_for(loss, c.classes);
  const auto model = make_model(model_options(c.kind, loss, c.hidden), c.shape, classes);
  ASSERT_TRUE(model->has_hessian());
  const Samples samples(c.shape, classes, c.rows);
  const std::vector<float> row = initial_row(*model);
  const std::vector<float> v = normal_row(row.size(), 7);
  expect_close(model->layout(), product(*model, row, samples.batch(), v),
               reference_hessian_vector(c.kind, loss, *model, c.shape, row, samples.batch(), v),
               tolerance);
}

TEST(Hessian, OfDenseModelsMatchesAutograd) {
  for (const char* loss : kLosses) {
    for (const HessianCase& c : dense_cases()) expect_matches(c, loss, 5e-5);
  }
}

TEST(Hessian, OfNetworksMatchesAutograd) {
  for (const char* loss : kLosses) {
    for (const HessianCase& c : network_cases()) expect_matches(c, loss, 2e-4);
  }
}

TEST(Hessian, WithoutBias) {
  const auto model = make_model({.kind = "linear", .loss = "squared-error", .bias = false}, {3}, 0);
  const Samples samples({3}, 0, 5);
  const std::vector<float> v{1, -2, 0.5};
  const auto out = product(*model, {4, 5, 6}, samples.batch(), v);
  for (std::size_t i = 0; i < 3; ++i) {  // X^T X v / B
    double expected = 0;
    for (std::size_t r = 0; r < 5; ++r) {
      const float* x = samples.features.data() + 3 * r;
      const double along = x[0] * v[0] + x[1] * v[1] + x[2] * v[2];
      expected += static_cast<double>(x[i]) * along / 5;
    }
    EXPECT_NEAR(out[i], expected, 1e-6);
  }
}

// g(x + h v) - g(x - h v) = 2 h H v + O(h^3), on a loss without kinks.
TEST(Hessian, IsTheSlopeOfTheGradient) {
  for (const char* loss : kLosses) {
    const int64_t classes = classes_for(loss, 4);
    const auto model = make_model(model_options("linear", loss), {6}, classes);
    const Samples samples({6}, classes, 9);
    const std::vector<float> row = initial_row(*model), v = normal_row(row.size(), 3);
    std::vector<float> above = row, below = row, slope(row.size());
    constexpr float kStep = 0x1p-7F;
    for (std::size_t i = 0; i < row.size(); ++i) {
      above[i] += kStep * v[i];
      below[i] -= kStep * v[i];
    }
    const auto ahead = loss_and_gradient(*model, above, samples.batch()).gradient;
    const auto behind = loss_and_gradient(*model, below, samples.batch()).gradient;
    for (std::size_t i = 0; i < row.size(); ++i) slope[i] = (ahead[i] - behind[i]) / (2 * kStep);
    expect_close(model->layout(), product(*model, row, samples.batch(), v), slope, 5e-4);
  }
}

TEST(Hessian, IsSymmetric) {
  for (const auto* cases : {&dense_cases(), &network_cases()}) {
    for (const HessianCase& c : *cases) {
      const auto model =
          make_model(model_options(c.kind, "cross-entropy", c.hidden), c.shape, c.classes);
      const Samples samples(c.shape, c.classes, c.rows);
      const std::vector<float> row = initial_row(*model);
      const auto u = normal_row(row.size(), 1), v = normal_row(row.size(), 2);
      const auto hu = product(*model, row, samples.batch(), u);
      const auto hv = product(*model, row, samples.batch(), v);
      double uhv = 0, vhu = 0, scale = 0;
      for (std::size_t i = 0; i < row.size(); ++i) {
        uhv += static_cast<double>(u[i]) * static_cast<double>(hv[i]);
        vhu += static_cast<double>(v[i]) * static_cast<double>(hu[i]);
        scale += std::abs(static_cast<double>(u[i]) * static_cast<double>(hv[i]));
      }
      EXPECT_NEAR(uhv, vhu, 1e-4 * scale) << ::testing::PrintToString(c);
    }
  }
}

TEST(Hessian, SameBitsOnEveryCall) {
  const auto model = make_model(model_options("mlp", "cross-entropy", {31, 9}), {17}, 4);
  const Samples small({17}, 4, 5, 1), large({17}, 4, 90, 2);
  const std::vector<float> row = initial_row(*model), v = normal_row(row.size(), 3);
  const auto expected = product(*model, row, small.batch(), v);
  product(*model, row, large.batch(), v);  // leaves larger buffers behind
  loss_and_gradient(*model, row, large.batch());
  EXPECT_EQ(product(*model, row, small.batch(), v), expected);
}

TEST(Hessian, NotOfRandomLosses) {
  const auto model = make_model(model_options("cnn-cifar", "cross-entropy"), {3, 8, 8}, 5);
  EXPECT_FALSE(model->has_hessian());
}

}  // namespace
}  // namespace hanse
