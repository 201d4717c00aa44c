#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/client/stream_fit.hpp"
#include "model/support.hpp"

namespace hanse {
namespace {

double target_of(const Samples& samples, int64_t r, int64_t output, int64_t outputs) {
  const auto at = static_cast<std::size_t>(r);
  if (!samples.targets.empty()) return static_cast<double>(samples.targets[at]);
  if (outputs == 1) return samples.labels[at] == 1 ? 1 : -1;
  return samples.labels[at] == output ? 1 : 0;
}

// Gradient of |X W' - Y|^2 / 2 + ridge |W - centre|^2 / 2 over all batches: zero at the least.
double largest_gradient(const std::vector<Samples>& batches, int64_t inputs, int64_t outputs,
                        double ridge, const std::vector<float>& row,
                        const std::vector<float>& centre) {
  double largest = 0;
  const auto place = [&](int64_t o, int64_t i) {
    return static_cast<std::size_t>(i == inputs ? outputs * inputs + o : o * inputs + i);
  };
  for (int64_t o = 0; o < outputs; ++o) {
    std::vector<double> gradient(static_cast<std::size_t>(inputs + 1));
    for (int64_t i = 0; i <= inputs; ++i) {
      gradient[static_cast<std::size_t>(i)] = ridge * (static_cast<double>(row[place(o, i)]) -
                                                       static_cast<double>(centre[place(o, i)]));
    }
    for (const Samples& samples : batches) {
      for (int64_t r = 0; r < samples.rows; ++r) {
        const auto x = [&](int64_t i) {
          return i == inputs ? 1.0
                             : static_cast<double>(
                                   samples.features[static_cast<std::size_t>(r * inputs + i)]);
        };
        double residual = -target_of(samples, r, o, outputs);
        for (int64_t i = 0; i <= inputs; ++i) {
          residual += x(i) * static_cast<double>(row[place(o, i)]);
        }
        for (int64_t i = 0; i <= inputs; ++i) {
          gradient[static_cast<std::size_t>(i)] += residual * x(i);
        }
      }
    }
    for (const double g : gradient) largest = std::max(largest, std::abs(g));
  }
  return largest;
}

struct Case {
  int64_t inputs, classes, outputs;
};

class RidgeFit : public testing::TestWithParam<Case> {
 protected:
  std::vector<Samples> batches() const {
    std::vector<Samples> result;
    for (const int64_t rows : {1, 5, 2, 17}) {
      result.emplace_back(std::vector<int64_t>{GetParam().inputs}, GetParam().classes, rows,
                          static_cast<uint64_t>(rows));
    }
    return result;
  }
  std::vector<float> start() const {
    std::vector<float> row(static_cast<std::size_t>((GetParam().inputs + 1) * GetParam().outputs));
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = std::sin(static_cast<float>(i));
    return row;
  }
};

TEST_P(RidgeFit, OnTheBatchIsTheMinimumNearTheNodesModel) {
  const auto& [inputs, classes, outputs] = GetParam();
  const auto fit = make_ridge_fit(inputs, outputs, 0.7, RidgeData::kBatch);
  EXPECT_FALSE(fit->remembers());
  for (const Samples& samples : batches()) {
    const auto centre = start();
    auto row = centre;
    auto noise = noise_stream();
    fit->fit(0, samples.batch(), noise, row);
    EXPECT_LT(largest_gradient({samples}, inputs, outputs, 0.7, row, centre), 2e-5);
  }
}

TEST_P(RidgeFit, OnAllDataIsTheMinimumOverTheNodesBatches) {
  const auto& [inputs, classes, outputs] = GetParam();
  const auto fit = make_ridge_fit(inputs, outputs, 0.7, RidgeData::kAll);
  EXPECT_TRUE(fit->remembers());
  const auto all = batches();
  std::vector<Samples> seen;
  for (const Samples& samples : all) {
    auto other = start();
    auto noise = noise_stream();
    fit->fit(8, all.front().batch(), noise, other);  // another node: a regression of its own
    seen.push_back(samples);
    auto row = start();
    fit->fit(3, samples.batch(), noise, row);
    EXPECT_LT(largest_gradient(seen, inputs, outputs, 0.7, row, std::vector<float>(row.size())),
              2e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(All, RidgeFit,
                         testing::Values(Case{9, 4, 4}, Case{1, 0, 1}, Case{12, 2, 1},
                                         Case{30, 2, 2}));

TEST(SgdFit, IsStepsOfTheModel) {
  const auto model = make_model(model_options("linear", "cross-entropy"), {6}, 3);
  const Samples samples({6}, 3, 5);
  auto row = initial_row(*model);
  auto expected = row;
  auto noise = noise_stream();
  make_sgd_fit(*model, 3, 0.2)->fit(1, samples.batch(), noise, row);
  for (int step = 0; step < 3; ++step) {
    model->sgd_step(expected, samples.batch(), noise, 0.2, 0);
  }
  EXPECT_EQ(row, expected);
}

// Five samples two at a time: 0 1, 2 3, 4, and again from the start.
TEST(SgdFit, StepsGoThroughTheBatch) {
  const auto model = make_model(model_options("linear", "cross-entropy"), {6}, 3);
  const Samples samples({6}, 3, 5);
  auto row = initial_row(*model);
  auto expected = row;
  auto noise = noise_stream();
  make_sgd_fit(*model, 4, 0.2, {.rows = 2, .sample_values = 6})
      ->fit(1, samples.batch(), noise, row);
  for (const auto& [first, rows] : {std::pair{0, 2}, {2, 2}, {4, 1}, {0, 2}}) {
    Batch part = samples.batch();
    part.features += 6 * first;
    part.labels += first;
    part.rows = rows;
    model->sgd_step(expected, part, noise, 0.2, 0);
  }
  EXPECT_EQ(row, expected);
}

}  // namespace
}  // namespace hanse
