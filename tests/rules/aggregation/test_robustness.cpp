#include <gtest/gtest.h>

#include "hanse/rules/aggregation/column_rules.hpp"
#include "hanse/rules/aggregation/robustness.hpp"
#include "rules/aggregation/robust_weights.hpp"

namespace hanse {
namespace {

double squared(const Numbers& a, const Numbers& b) {
  double sum = 0;
  for (std::size_t j = 0; j < a.size(); ++j) sum += std::pow(a[j] - b[j], 2);
  return sum;
}

std::vector<char> first_are_honest(std::size_t n, std::size_t honest) {
  std::vector<char> marks(n);
  std::fill_n(marks.begin(), honest, char{1});
  return marks;
}

Numbers honest_mean(const Rows& rows, std::size_t honest) {
  Numbers weights(rows.size());
  std::fill_n(weights.begin(), honest, 1 / double(honest));
  return combination(weights, rows);
}

double honest_spread(const Rows& rows, std::size_t honest) {
  const Numbers mean = honest_mean(rows, honest);
  double sum = 0;
  for (std::size_t i = 0; i < honest; ++i) sum += squared(rows[i], mean) / double(honest);
  return sum;
}

TEST(Robustness, IsTheRatioOnVectors) {
  for (uint64_t trial = 0; trial < 50; ++trial) {
    RandomStream random(81, Purpose::kData, trial);
    const std::size_t n = 3 + trial % 6, honest = 2 + trial % (n - 2);
    const Rows rows = random_rows(n, 1 + trial % 4, 0.3, random);
    Numbers c;
    for (std::size_t i = 0; i < n; ++i) c.push_back(i % 3 == 1 ? 0 : random.uniform());
    const Numbers entries = gram_of(rows);
    const auto found = measure_robustness({entries, n}, c, first_are_honest(n, honest));
    const double kappa =
        squared(combination(c, rows), honest_mean(rows, honest)) / honest_spread(rows, honest);
    EXPECT_NEAR(found.kappa, kappa, 1e-9 * kappa);
    double weight = 0, recalled = 0;
    for (std::size_t i = 0; i < n; ++i)
      (i < honest ? recalled : weight) += i < honest ? c[i] > 0 : c[i];
    EXPECT_NEAR(found.byzantine_weight, weight, 1e-15);
    EXPECT_NEAR(found.honest_recall, recalled / double(honest), 1e-15);
  }
}

TEST(Robustness, OfHonestRowsThatAreAlikeIsZeroOrInfinite) {
  const Rows rows{{0.1, 0.3}, {0.1, 0.3}, {0.1, 0.3}, {5, 5}};
  const Numbers entries = gram_of(rows);
  const auto honest = first_are_honest(4, 3);
  EXPECT_EQ(measure_robustness({entries, 4}, Numbers{1. / 3, 1. / 3, 1. / 3, 0}, honest).kappa, 0);
  EXPECT_EQ(measure_robustness({entries, 4}, Numbers{0, 1, 0, 0}, honest).kappa, 0);
  EXPECT_EQ(measure_robustness({entries, 4}, Numbers(4, 0.25), honest).kappa, INFINITY);
}

TEST(Robustness, LeavesOutRowsThatAreNotFinite) {
  const Rows rows{{0, 0}, {2, 0}, {NAN, 1}};
  const Numbers entries = gram_of(rows);
  const auto found = measure_robustness({entries, 3}, Numbers{1, 0, 0}, first_are_honest(3, 2));
  EXPECT_EQ(found.kappa, 1);
  EXPECT_EQ(found.honest_recall, 0.5);
}

TEST(Robustness, OfColumnsIsTheRatioOnVectors) {
  const std::vector<float> a{1, 2, 3}, b{3, 6, -1};
  const Numbers x{2, 5, 2}, shares{0, 0.5, 1};
  ColumnDeviations deviations;
  for (std::size_t at = 0; at < 3; ++at) {  // a block a column
    const std::vector<const float*> rows{a.data() + at, b.data() + at};
    deviations.add(std::span(x).subspan(at, 1), rows, std::span(shares).subspan(at, 1));
  }
  const Robustness found = deviations.result(2);
  EXPECT_DOUBLE_EQ(found.kappa, (0. + 1 + 1) / (1. + 4 + 4));
  EXPECT_DOUBLE_EQ(found.byzantine_weight, 0.5);
  EXPECT_TRUE(std::isnan(found.honest_recall));
  EXPECT_EQ(ColumnDeviations{}.result(2).kappa, 0);
}

// Honest rows that lie near each other, and rows that lie far, near, or together.
Rows adversarial(std::size_t n, std::size_t f, RandomStream& random) {
  const auto length = static_cast<std::size_t>(1 + random.below(4));
  Rows rows(n, Numbers(length));
  const double far = std::pow(10, 3 * random.uniform() - 1);
  const bool together = random.below(2);
  for (std::size_t i = 0; i < n; ++i) {
    for (double& x : rows[i]) x = random.normal();
    if (i < n - f) continue;
    rows[i] = together && i > n - f ? rows[i - 1] : scaled(rows[i], far);
  }
  return rows;
}

Numbers by_columns(const ColumnRule& rule, const Rows& rows) {
  std::vector<int64_t> values;
  for (const Numbers& row : rows) {
    for (const double u : row) values.push_back(to_lattice(u, lattice_limit(std::ssize(rows))));
  }
  Numbers out(rows.front().size());
  mix_columns(rule, values, rows.size(), out);
  return out;
}

// What Allouah et al. (2023) prove for kappa with f of n byzantine rows, by n and f; with NNM in
// front 8 f/(n-f) (kappa + 1).
struct Proven {
  std::size_t rows, byzantine;
  double n = double(rows), f = double(byzantine);
  double least() const { return f / (n - 2 * f); }
  double trimmed_mean() const { return 6 * least() * (1 + least()); }
  double krum() const { return 6 * (1 + least()); }
  double median() const { return 4 * (1 + least()) * (1 + least()); }  // geometric, too
  double after_nnm(double kappa) const { return 8 * f / (n - f) * (kappa + 1); }
};

TEST(Robustness, StaysBelowWhatIsProven) {
  for (uint64_t trial = 0; trial < 10000; ++trial) {
    RandomStream random(82, Purpose::kData, trial);
    const auto n = static_cast<std::size_t>(4 + random.below(7));
    const auto f = static_cast<std::size_t>(1 + random.below(int64_t(n - 2) / 2));
    const Rows rows = adversarial(n, f, random);
    const Numbers entries = gram_of(rows);
    const GramView gram{entries, n};
    const auto honest = first_are_honest(n, n - f);
    const auto kappa = [&](const Coefficients& c) {
      return measure_robustness(gram, c, honest).kappa;
    };
    const Proven proven{n, f};
    const double rounding = 1 + 1e-9;
    for (const auto variant : {Variant::kPaper, Variant::kReference}) {
      EXPECT_LE(kappa(multi_krum(gram, int64_t(f), 1, variant)), proven.krum() * rounding);
      MappedRows mixed(gram);
      mixed.apply(PreRules::parse("nnm"), int64_t(f), {});
      EXPECT_LE(kappa(mixed.pull_back(multi_krum(mixed.gram(), int64_t(f), 1, variant))),
                proven.after_nnm(proven.krum()) * rounding);
    }
    EXPECT_LE(kappa(geometric_median(gram, 200, 1e-9)), proven.median() * rounding);
    const double spread = honest_spread(rows, n - f);
    const Numbers mean = honest_mean(rows, n - f);
    EXPECT_LE(squared(by_columns({ColumnKind::kMedian}, rows), mean) / spread,
              proven.median() * rounding);
    EXPECT_LE(squared(by_columns({ColumnKind::kTrimmedMean, int64_t(f)}, rows), mean) / spread,
              proven.trimmed_mean() * rounding);
  }
}

TEST(Robustness, BoundsAreKnownNumbers) {
  const Proven proven{10, 2};
  EXPECT_DOUBLE_EQ(proven.least(), 1. / 3);
  EXPECT_DOUBLE_EQ(proven.trimmed_mean(), 6. / 3 * (4. / 3));
  EXPECT_DOUBLE_EQ(proven.krum(), 8);
  EXPECT_DOUBLE_EQ(proven.after_nnm(proven.median()), 2 * (64. / 9 + 1));
}

}  // namespace
}  // namespace hanse
