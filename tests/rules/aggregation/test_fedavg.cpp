#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/choice.hpp"
#include "hanse/base/error.hpp"
#include "hanse/rules/aggregation/aggregator.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Numbers = std::vector<double>;

struct FedAvgOptions {
  ClientWeights weights = ClientWeights::kSamples;
  Estimator estimator = Estimator::kNormalized;
};

Mix mix(const FedAvgOptions& options, int64_t clients, const std::vector<int64_t>& ids,
        const Numbers& lambda, const Numbers& draw_weights) {
  const auto rule = make_fedavg(options.weights, options.estimator, clients);
  EXPECT_EQ(rule->scale({}, {}), 1.0);
  EXPECT_FALSE(rule->needs().losses);
  return rule->mix({.round = 1, .clients = ids, .lambda = lambda, .draw_weights = draw_weights});
}

void expect_near(const Numbers& values, const Numbers& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-15) << i;
}

// Clients 4, 0, 2 of five, drawn with weights 3, 1, 0.5.
TEST(FedAvg, ClosedFormOfAllFourKinds) {
  const auto with = [](ClientWeights weights, Estimator estimator) {
    const Mix result = mix({weights, estimator}, 5, {4, 0, 2}, {0.1, 0.4, 0.2}, {3, 1, 0.5});
    return result.coefficients;
  };
  expect_near(with(ClientWeights::kSamples, Estimator::kUnbiased), {0.3, 0.4, 0.1});
  expect_near(with(ClientWeights::kSamples, Estimator::kNormalized),
              {0.3 / 0.8, 0.4 / 0.8, 0.1 / 0.8});
  expect_near(with(ClientWeights::kUniform, Estimator::kUnbiased), {0.6, 0.2, 0.1});
  expect_near(with(ClientWeights::kUniform, Estimator::kNormalized), {3 / 4.5, 1 / 4.5, 0.5 / 4.5});
}

TEST(FedAvg, SharesOfTheDrawnSamples) {
  expect_near(mix({}, 4, {1, 3}, {0.1, 0.3}, {2, 2}).coefficients, {0.25, 0.75});
}

// Over all six pairs of four clients, drawn uniformly: w_i = 4 / 2.
TEST(FedAvg, UnbiasedCoefficientsAverageToTheShares) {
  const Numbers lambda{0.1, 0.2, 0.3, 0.4};
  for (const ClientWeights weights : {ClientWeights::kSamples, ClientWeights::kUniform}) {
    Numbers average(4);
    for (std::size_t a = 0; a < 4; ++a) {
      for (std::size_t b = a + 1; b < 4; ++b) {
        const auto pair =
            mix({weights, Estimator::kUnbiased}, 4,
                {static_cast<int64_t>(a), static_cast<int64_t>(b)}, {lambda[a], lambda[b]}, {2, 2})
                .coefficients;
        average[a] += pair[0] / 6;
        average[b] += pair[1] / 6;
      }
    }
    expect_near(average, weights == ClientWeights::kSamples ? lambda : Numbers(4, 0.25));
  }
}

TEST(FedAvg, NormalizedWithoutAnyWeightIsAnError) {
  for (const double lambda : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    expect_error<InvalidArgument>([&] { mix({}, 2, {0}, {lambda}, {1}); },
                                  {"sum to", "hint: "});
  }
  expect_near(mix({ClientWeights::kSamples, Estimator::kUnbiased}, 2, {0}, {0}, {1}).coefficients,
              {0});
}

// Clients with 5, 20 and 80 samples of 5 clients whose capped weights sum to 4, cap 20.
TEST(FedAvg, CappedClientsCountBySamplesUpToTheCap) {
  const std::vector<int64_t> ids{4, 0, 2};
  const Numbers lambda{0.02, 0.1, 0.4}, draws{3, 1, 0.5}, samples{5, 20, 80};
  const auto with = [&](double all, Estimator estimator) {
    const auto rule = make_capped_fedavg(20, all, estimator);
    EXPECT_TRUE(rule->needs().sizes);
    return rule
        ->mix({.round = 1,
               .clients = ids,
               .lambda = lambda,
               .draw_weights = draws,
               .samples = samples})
        .coefficients;
  };
  expect_near(with(4, Estimator::kUnbiased), {0.25 * 3 / 4, 0.25, 0.125});
  expect_near(with(4, Estimator::kNormalized), {0.75 / 2.25, 1 / 2.25, 0.5 / 2.25});
  expect_near(with(1, Estimator::kNormalized), with(4, Estimator::kNormalized));
}

TEST(FedAvg, NamesOfItsChoices) {
  EXPECT_EQ(name_of(Estimator::kUnbiased), "unbiased");
  EXPECT_EQ(name_of(Estimator::kNormalized), "normalized");
  EXPECT_EQ(name_of(ClientWeights::kSamples), "samples");
  EXPECT_EQ(name_of(ClientWeights::kUniform), "uniform");
  EXPECT_EQ(name_of(ClientWeights::kCapped), "capped");
}

}  // namespace
}  // namespace hanse
