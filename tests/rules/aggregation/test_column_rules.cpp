#include <gtest/gtest.h>

#include "hanse/rules/aggregation/column_rules.hpp"
#include "rules/aggregation/support.hpp"

namespace hanse {
namespace {

using Places = std::vector<std::size_t>;
using Integers = std::vector<int64_t>;

// The places of one column whose values are averaged, by a sort of its own.
Places averaged(const ColumnRule& rule, const Integers& column) {
  const std::size_t n = column.size();
  Places order(n);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return column[i]; });
  const auto some = static_cast<std::size_t>(rule.count);
  const std::size_t low = (n - 1) / 2, high = rule.lower_median ? low : n / 2;
  if (rule.kind == ColumnKind::kTrimmedMean) {
    return {order.begin() + rule.count, order.end() - rule.count};
  }
  if (rule.kind == ColumnKind::kMedian) {
    return {order.begin() + long(low), order.begin() + long(high) + 1};
  }
  const double median = (double(column[order[low]]) + double(column[order[high]])) / 2;
  std::ranges::sort(order);
  std::ranges::stable_sort(order, {},
                           [&](std::size_t i) { return std::abs(double(column[i]) - median); });
  order.resize(some);
  return order;
}

std::vector<ColumnRule> rules_of(std::size_t n) {
  std::vector<ColumnRule> rules{{ColumnKind::kMedian, 0, false}, {ColumnKind::kMedian, 0, true}};
  for (int64_t f = 0; 2 * f < int64_t(n); ++f) {
    rules.push_back({ColumnKind::kTrimmedMean, f, false});
    rules.push_back({ColumnKind::kNearMedian, int64_t(n) - f, false});
    rules.push_back({ColumnKind::kNearMedian, int64_t(n) - f, true});
  }
  return rules;
}

// Values [n, columns], small integers where `ties`.
Integers values_of(std::size_t n, std::size_t columns, bool ties, uint64_t trial) {
  RandomStream random(79, Purpose::kData, trial);
  Integers values(n * columns);
  for (int64_t& z : values) {
    z = ties ? random.below(5) - 2 : to_lattice(random.normal(), lattice_limit(int64_t(n)));
  }
  return values;
}

TEST(ColumnRules, AreTheLiteralRulesOnEachColumn) {
  for (uint64_t trial = 0; trial < 44; ++trial) {
    const std::size_t n = 1 + trial % 11;
    const std::size_t columns = std::array{1, 31, 32, 33, 100}[trial % 5];
    const Integers values = values_of(n, columns, trial % 2, trial);
    Numbers weights(n);
    weights[0] = 1;
    if (n > 2) weights[n - 2] = 0.5;
    for (const ColumnRule& rule : rules_of(n)) {
      Numbers out(columns), shares(columns);
      mix_columns(rule, values, n, out, {weights, shares});
      for (std::size_t j = 0; j < columns; ++j) {
        Integers column;
        for (std::size_t i = 0; i < n; ++i) column.push_back(values[i * columns + j]);
        const Places places = averaged(rule, column);
        int64_t sum = 0;
        double found = 0;
        for (const std::size_t i : places) {
          sum += column[i];
          found += weights[i];
        }
        ASSERT_EQ(out[j], double(sum) / double(places.size()) * 0x1p-44)
            << "n " << n << " kind " << int(rule.kind) << " count " << rule.count;
        ASSERT_EQ(shares[j], found / double(places.size()))
            << "n " << n << " kind " << int(rule.kind) << " count " << rule.count;
      }
    }
  }
}

TEST(ColumnRules, SortAnyNumberOfRows) {
  for (const std::size_t n : {1, 2, 3, 15, 16, 17, 50, 64, 65, 127, 130}) {
    Integers values(n * 40);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < 40; ++j) {
        values[i * 40 + j] = int64_t((i * 37 + j * 11) % n) << 44;
      }
    }
    // 37 may share a divisor with n: the expected numbers come from a sort.
    for (const ColumnRule& rule : {ColumnRule{ColumnKind::kMedian},
                                   ColumnRule{ColumnKind::kTrimmedMean, int64_t(n - 1) / 3}}) {
      Numbers out(40);
      mix_columns(rule, values, n, out);
      for (std::size_t j = 0; j < 40; ++j) {
        Integers column;
        for (std::size_t i = 0; i < n; ++i) column.push_back(values[i * 40 + j]);
        double sum = 0;
        const Places places = averaged(rule, column);
        for (const std::size_t i : places) sum += std::ldexp(double(column[i]), -44);
        ASSERT_DOUBLE_EQ(out[j], sum / double(places.size())) << n;
      }
    }
  }
}

TEST(ColumnRules, OfHandExamplesAreKnown) {
  const auto lattice = [](std::vector<double> column) {
    Integers z;
    for (const double u : column) z.push_back(to_lattice(u, lattice_limit(std::ssize(column))));
    return z;
  };
  const auto result = [&](const ColumnRule& rule, const std::vector<double>& column) {
    Numbers out(1);
    mix_columns(rule, lattice(column), column.size(), out);
    return out[0];
  };
  EXPECT_EQ(result({ColumnKind::kMedian}, {4, 1, 3, 2}), 2.5);
  EXPECT_EQ(result({ColumnKind::kMedian, 0, true}, {4, 1, 3, 2}), 2);
  EXPECT_EQ(result({ColumnKind::kTrimmedMean, 1}, {9, 1, 3, 2, -50}), 2);
  EXPECT_EQ(result({ColumnKind::kNearMedian, 3}, {9, 1, 3, 2, -50}), 2);
  // 0 and 2 are as far from 1: that of the smaller place counts.
  EXPECT_EQ(result({ColumnKind::kNearMedian, 2}, {0, 1, 2}), 0.5);
  EXPECT_EQ(result({ColumnKind::kNearMedian, 2}, {2, 1, 0}), 1.5);
  EXPECT_EQ(result({ColumnKind::kNearMedian, 4}, {2, 0, 1, 1, 0, 2}), 1);  // median 1
}

// The mean of the values that count, of which none is cut, and their rows.
struct Plain {
  double mean = 0;
  Places rows;
};

Plain plain(const ColumnRule& rule, const std::vector<double>& column) {
  const std::size_t n = column.size();
  Places order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return column[i]; });
  const std::size_t low = (n - 1) / 2, high = rule.lower_median ? low : n / 2;
  std::size_t begin = low, end = high + 1;
  const auto count = static_cast<std::size_t>(rule.count);
  if (rule.kind == ColumnKind::kTrimmedMean) begin = count, end = n - count;
  if (rule.kind == ColumnKind::kNearMedian) {
    const long double median =
        (static_cast<long double>(column[order[low]]) + column[order[high]]) / 2;
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {},
                             [&](std::size_t i) { return std::fabs(column[i] - median); });
    begin = 0, end = count;
  }
  Plain found;
  long double sum = 0;
  for (std::size_t at = begin; at < end; ++at) {
    sum += column[order[at]];
    found.rows.push_back(order[at]);
  }
  found.mean = double(sum / (end - begin));
  return found;
}

// Columns of one magnitude each, from 2^-8 to 2^99: some lie on the lattice, some beyond it, and
// in some a few values alone do.
TEST(ColumnRules, CutNothingThatCounts) {
  constexpr std::size_t kColumns = 70;
  RandomStream random(97, Purpose::kData, 0);
  for (std::size_t n : {1U, 2U, 3U, 4U, 5U, 8U, 11U, 30U}) {
    std::vector<std::vector<float>> rows(n, std::vector<float>(kColumns));
    for (std::size_t j = 0; j < kColumns; ++j) {
      const double magnitude = std::ldexp(1, int(random.below(108)) - 8);
      for (auto& row : rows) {
        row[j] = float(magnitude * random.normal());
        if (random.below(4) == 0) row[j] = float(random.normal());
        if (random.below(6) == 0) row[j] = rows[0][j];
      }
    }
    std::vector<const float*> pointers;
    for (const auto& row : rows) pointers.push_back(row.data());
    const auto m = int64_t(n);
    for (const ColumnRule& rule :
         {ColumnRule{ColumnKind::kMedian}, ColumnRule{ColumnKind::kMedian, 0, true},
          ColumnRule{ColumnKind::kTrimmedMean, (m - 1) / 2},
          ColumnRule{ColumnKind::kTrimmedMean, 0},
          ColumnRule{ColumnKind::kNearMedian, m - (m - 1) / 2},
          ColumnRule{ColumnKind::kNearMedian, m - (m - 1) / 3, true}}) {
      ColumnMix mix{.rule = rule, .map = std::vector<double>(n * n), .n = m};
      for (std::size_t i = 0; i < n; ++i) mix.map[i * n + i] = 1;
      std::vector<int64_t> lattice(n * kColumns);
      std::vector<double> out(kColumns), shares(kColumns), weights(n);
      for (double& weight : weights) weight = random.uniform();
      const auto large = step_columns(mix, pointers, lattice, out, {weights, shares});
      std::vector<double> alone(kColumns);
      EXPECT_EQ(step_columns(mix, pointers, lattice, alone).size(), large.size());
      EXPECT_EQ(alone, out);
      auto next = large.begin();
      for (std::size_t j = 0; j < kColumns; ++j) {
        std::vector<double> column;
        for (const auto& row : rows) column.push_back(row[j]);
        const Plain expected = plain(rule, column);
        double most = 0, share = 0;
        for (const std::size_t i : expected.rows) {
          most = std::max(most, std::abs(column[i]));
          share += weights[i] / double(expected.rows.size());
        }
        ASSERT_NEAR(out[j], expected.mean, 1e-13 * most + 0x1p-44) << n << " rows, column " << j;
        ASSERT_NEAR(shares[j], share, 1e-13) << n << " rows, column " << j;
        const bool is_large = most >= std::ldexp(double(lattice_limit(m)), -44);
        if (!is_large) continue;
        ASSERT_NE(next, large.end());
        EXPECT_EQ(next->column, j);
        EXPECT_EQ(std::abs(column[next->row]), most);
        ++next;
      }
      EXPECT_EQ(next, large.end()) << n;
    }
  }
}

TEST(ColumnRules, NameTheRowThatAddsMostToALargeEntry) {
  // Two mapped rows: (u_0 + u_1) / 2 and (u_1 + 3 u_2) / 4.
  ColumnMix mix{.rule = {ColumnKind::kTrimmedMean, 0}, .map = {.5, .5, 0, 0, .25, .75}, .n = 2};
  const std::vector<double> u0{1, 4e5}, u1{2e6, 0}, u2{-8, -1};
  const std::vector<const double*> rows{u0.data(), u1.data(), u2.data()};
  std::vector<int64_t> lattice(4);
  std::vector<double> out(2);
  const auto large = step_columns(mix, rows, lattice, out);
  EXPECT_EQ(out, (std::vector<double>{((1 + 2e6) / 2 + 0.25 * 2e6 - 6) / 2, (2e5 - 0.75) / 2}));
  ASSERT_EQ(large.size(), 2U);
  EXPECT_EQ(large[0].row, 1U);
  EXPECT_EQ(large[1].row, 0U);
}

TEST(ColumnRules, WithoutByzantineRowsAreTheMeanOnTheLattice) {
  const Integers values = values_of(9, 50, false, 3);
  Numbers out(50);
  mix_columns({ColumnKind::kTrimmedMean, 0}, values, 9, out);
  for (std::size_t j = 0; j < 50; ++j) {
    double sum = 0;
    for (std::size_t i = 0; i < 9; ++i) sum += std::ldexp(double(values[i * 50 + j]), -44);
    EXPECT_NEAR(out[j], sum / 9, 0x1p-44);
  }
}

TEST(ColumnRules, ValuesBeyondTheLatticeStayTheLargest) {
  const int64_t limit = lattice_limit(5);
  EXPECT_EQ(to_lattice(1e30, limit), limit);
  EXPECT_EQ(to_lattice(-INFINITY, limit), -limit);
  EXPECT_EQ(to_lattice(3 * 0x1p-44, limit), 3);
  EXPECT_EQ(to_lattice(2.5 * 0x1p-44, limit), 2);  // halves to even
  for (const int64_t n : {1, 2, 5, 1000}) {
    // The sum of n values, and twice the distance of two, fit.
    EXPECT_LE(double(lattice_limit(n)) * std::max(4.0, double(n)), 0x1p62);
  }
  const Integers values{limit, -limit, 5, limit, 7};
  Numbers out(1);
  mix_columns({ColumnKind::kTrimmedMean, 2}, values, 5, out);
  EXPECT_EQ(out[0], 7 * 0x1p-44);
  mix_columns({ColumnKind::kNearMedian, 3}, values, 5, out);
  EXPECT_GT(out[0], 0);
}

TEST(ColumnRules, MapRowsBeforeTheySortThem) {
  const std::vector<float> a{1, 2, 3}, b{3, 4, 5}, nan(3, NAN);
  const std::array<const float*, 3> rows{a.data(), nan.data(), b.data()};
  const ColumnMix mix{.rule = {}, .map = {0.5, 0, 0.5, 0, 0, -2}, .n = 2};
  Integers out(6);
  map_columns(mix, rows, 3, out);
  const Numbers expected{2, 3, 4, -6, -8, -10};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(std::ldexp(double(out[i]), -44), expected[i]);
}

}  // namespace
}  // namespace hanse
