// Steps that no value decides, against the rule on random values.
#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "hanse/rules/attack/certain_step.hpp"
#include "rules/aggregation/rows.hpp"

namespace hanse {
namespace {

// n mapped rows of three, the last `others` of them unlike the first and each other.
ColumnMix mixed(const ColumnRule& rule, int64_t n, int64_t others) {
  ColumnMix mix{.rule = rule, .n = n};
  for (int64_t a = 0; a < n; ++a) {
    const double x = a < n - others ? 0.25 : 1.0 + static_cast<double>(a);
    mix.map.insert(mix.map.end(), {x, 1 - x, a % 2 == 0 && a >= n - others ? 3.0 : 0.5});
  }
  return mix;
}

TEST(CertainStep, IsWhereEnoughRowsAreAlike) {
  for (int64_t n = 1; n <= 9; ++n) {
    for (int64_t f = 0; 2 * f < n; ++f) {
      for (int64_t others = 0; others < n; ++others) {
        const auto found = [&](const ColumnRule& rule) {
          return certain_step(mixed(rule, n, others)).has_value();
        };
        EXPECT_EQ(found({ColumnKind::kTrimmedMean, f}), others <= f) << n << " " << f;
        EXPECT_EQ(found({ColumnKind::kMedian, 0}), others <= (n - 1) / 2) << n;
        EXPECT_EQ(found({ColumnKind::kNearMedian, n - f}), others <= (n - 1) / 2 && others <= f);
      }
    }
  }
}

TEST(CertainStep, IsThatOfTheRule) {
  RandomStream stream(3, Purpose::kData);
  std::vector<float> values(3 * 8);
  for (float& value : values) value = static_cast<float>(stream.normal());
  const std::vector<const float*> rows{values.data(), values.data() + 8, values.data() + 16};
  for (const ColumnRule& rule : {ColumnRule{ColumnKind::kTrimmedMean, 2},
                                 {ColumnKind::kMedian, 0},
                                 {ColumnKind::kNearMedian, 5}}) {
    const ColumnMix mix = mixed(rule, 7, 2);
    const auto certain = certain_step(mix);
    ASSERT_TRUE(certain);
    EXPECT_EQ(*certain, (Numbers{0.25, 0.75, 0.5}));
    std::vector<int64_t> lattice(7 * 8);
    Numbers step(8);
    map_columns(mix, rows, 8, lattice);
    mix_columns(rule, lattice, 7, step);
    for (std::size_t j = 0; j < 8; ++j) {
      EXPECT_NEAR(step[j], 0.25 * values[j] + 0.75 * values[8 + j] + 0.5 * values[16 + j], 1e-12);
    }
  }
}

}  // namespace
}  // namespace hanse
