// synthetic(alpha, beta), against its definition in data/made-up.md.
#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/base/random.hpp"
#include "hanse/data/dataset.hpp"
#include "support.hpp"

namespace hanse {
namespace {

constexpr uint64_t kSeed = 11;

DataOptions classes_of_clients(double alpha, double beta) {
  return {.kind = "synthetic-classification",
          .classes = 4,
          .dimension = 6,
          .alpha = alpha,
          .beta = beta};
}

// Every label by the client's own model, drawn once more as data/made-up.md says.
TEST(SyntheticClassification, LabelsAreThoseOfTheClientsModel) {
  constexpr std::size_t kFeatures = 6, kClasses = 4;
  const Dataset dataset = make_synthetic_classification(classes_of_clients(0.5, 2), 3, 5, kSeed);
  const std::vector<float> x = features_of(dataset);
  std::size_t sample = 0;
  for (uint64_t m = 0; m < 3; ++m) {
    RandomStream own(kSeed, Purpose::kData, 3, m);
    const auto size = static_cast<std::size_t>(5 + std::floor(std::exp(4 + 2 * own.normal())));
    const double u = 0.5 * own.normal(), b = 2 * own.normal();
    std::vector<double> centre, weights, bias;
    for (std::size_t j = 0; j < kFeatures; ++j) centre.push_back(b + own.normal());
    for (std::size_t j = 0; j < kClasses * kFeatures; ++j) weights.push_back(u + own.normal());
    for (std::size_t j = 0; j < kClasses; ++j) bias.push_back(u + own.normal());
    RandomStream samples(kSeed, Purpose::kData, 0, m);
    for (std::size_t i = 0; i < size; ++i, ++sample) {
      EXPECT_EQ(dataset.groups[sample], static_cast<int64_t>(m));
      std::vector<double> scores = bias;
      for (std::size_t j = 0; j < kFeatures; ++j) {
        const double deviation = std::sqrt(std::pow(static_cast<double>(j + 1), -1.2));
        const double value = static_cast<double>(x[sample * kFeatures + j]);
        EXPECT_NEAR(value, centre[j] + deviation * samples.normal(), 1e-5);
        for (std::size_t c = 0; c < kClasses; ++c) scores[c] += weights[c * kFeatures + j] * value;
      }
      EXPECT_EQ(dataset.labels[sample],
                std::max_element(scores.begin(), scores.end()) - scores.begin());
    }
  }
  EXPECT_EQ(sample, dataset.labels.size());
}

TEST(SyntheticClassification, OtherClientsLeaveAClientAlone) {
  const Dataset few = make_synthetic_classification(classes_of_clients(1, 1), 2, 50, 8);
  const Dataset many = make_synthetic_classification(classes_of_clients(1, 1), 20, 50, 8);
  ASSERT_LT(few.labels.size(), many.labels.size());
  EXPECT_TRUE(std::equal(few.labels.begin(), few.labels.end(), many.labels.begin()));
  EXPECT_TRUE(std::equal(few.features.begin(), few.features.end(), many.features.begin()));
  EXPECT_THROW(make_synthetic_classification(classes_of_clients(-1, 1), 2, 50, 8), InvalidArgument);
}

}  // namespace
}  // namespace hanse
