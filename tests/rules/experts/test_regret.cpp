#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "hanse/rules/experts/experts.hpp"

namespace hanse {
namespace {

using Numbers = std::vector<double>;

Numbers random_losses(std::size_t count, double largest, uint64_t seed) {
  RandomStream random(seed, Purpose::kData);
  Numbers losses(count);
  for (double& loss : losses) loss = largest * random.uniform();
  return losses;
}

double mixture_loss(const Numbers& losses, const Numbers& q) {
  double sum = 0;
  for (std::size_t t = 0; t < losses.size(); t += q.size()) {
    double p = 0;
    for (std::size_t j = 0; j < q.size(); ++j) p += q[j] * std::exp(-losses[t + j]);
    sum -= std::log(p);
  }
  return sum;
}

TEST(BestFixedMixture, NoGridPointIsBetter) {
  for (const std::size_t rounds : {1, 2, 37}) {
    const Numbers losses = random_losses(3 * rounds, 4, rounds);
    const FixedMixture best = best_fixed_mixture(losses, 3);
    const double allowed = 1e-4 * static_cast<double>(rounds) + 1e-12;
    EXPECT_NEAR(best.loss, mixture_loss(losses, best.weights), 1e-10);
    EXPECT_NEAR(best.weights[0] + best.weights[1] + best.weights[2], 1, 1e-12);
    double least = INFINITY;
    for (int a = 0; a <= 100; ++a) {
      for (int b = 0; a + b <= 100; ++b) {
        least =
            std::min(least, mixture_loss(losses, {a / 100.0, b / 100.0, (100 - a - b) / 100.0}));
      }
    }
    EXPECT_LE(best.loss, least + allowed) << rounds << " rounds";
  }
}

TEST(BestFixedMixture, ClosedForms) {
  // Two forecasters who are right by turns: half and half, log 2 less what both give.
  const Numbers turns{0, 50, 50, 0};
  EXPECT_NEAR(best_fixed_mixture(turns, 2).loss, 2 * std::log(2.0), 1e-9);
  // One that is always better is all there is.
  EXPECT_NEAR(best_fixed_mixture(Numbers{1, 2, 3, 4}, 2).loss, 4, 4e-4);
  // Losses that would underflow.
  EXPECT_NEAR(best_fixed_mixture(Numbers{2000, 2001}, 2).loss, 2000, 1e-4);
}

TEST(RegretBook, SumsOfEachNode) {
  RegretBook book(2, 1);
  book.add(Numbers{0.25, 0.75, 1, 0}, Numbers{1, 0, 0.5, 0.25}, Numbers{0.125, 0.5});
  book.add(Numbers{0.5, 0.5, 0, 1}, Numbers{0, 0.5, 1, 0}, Numbers{0.25, 1});
  EXPECT_EQ(book.weighted(0), 0.25 + 0.25);
  EXPECT_EQ(book.weighted(1), 0.5 + 0);
  EXPECT_EQ(book.own(0), 0.375);
  EXPECT_EQ(book.own(1), 1.5);
  EXPECT_EQ(book.best_peer(0), 0.5);
  EXPECT_EQ(book.best_peer(1), 0.25);
}

TEST(RegretBook, BestMixtureOfItsNodeInUnitsOfTheLosses) {
  const double scale = 6;
  RegretBook book(3, scale);
  std::vector<Numbers> rows(3);
  for (uint64_t t = 0; t < 20; ++t) {
    const Numbers losses = random_losses(9, 1, 100 + t);
    for (std::size_t k = 0; k < 9; ++k) rows[k / 3].push_back(scale * losses[k]);
    book.add(Numbers(9, 1.0 / 3), losses, Numbers(3));
  }
  for (int64_t node = 0; node < 3; ++node) {
    const double expected = best_fixed_mixture(rows[static_cast<std::size_t>(node)], 3).loss;
    EXPECT_NEAR(book.best_mixture(node), expected / scale, 1e-12);
    EXPECT_LT(book.best_mixture(node), book.best_peer(node));
  }
}

TEST(RegretBook, GoesOnFromItsState) {
  RegretBook book(2, 3);
  const Numbers losses = random_losses(8, 1, 5);
  const std::span<const double> all(losses);
  book.add(Numbers(4, 0.5), all.first(4), Numbers{0.5, 0.25});
  State state;
  book.save(state);
  RegretBook again(2, 3);
  again.load(state);
  for (RegretBook* one : {&book, &again}) one->add(Numbers(4, 0.5), all.last(4), Numbers{1, 0});
  for (int64_t node = 0; node < 2; ++node) {
    EXPECT_EQ(again.weighted(node), book.weighted(node));
    EXPECT_EQ(again.own(node), book.own(node));
    EXPECT_EQ(again.best_peer(node), book.best_peer(node));
    EXPECT_EQ(again.best_mixture(node), book.best_mixture(node));
  }
}

TEST(RegretBook, KeepsNoHistoryOfManyNodes) {
  const int64_t nodes = RegretBook::kMostNodes + 1;
  RegretBook book(nodes, 1);
  const auto n = static_cast<std::size_t>(nodes);
  book.add(Numbers(n * n), Numbers(n * n, 0.5), Numbers(n));
  EXPECT_EQ(book.best_peer(nodes - 1), 0.5);
  EXPECT_TRUE(std::isnan(book.best_mixture(0)));
}

}  // namespace
}  // namespace hanse
