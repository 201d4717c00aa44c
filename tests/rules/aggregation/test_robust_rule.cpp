#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/aggregation/robust.hpp"
#include "hanse/rules/aggregation/robust_rule.hpp"
#include "rules/aggregation/rows.hpp"

namespace hanse {
namespace {

Rows cloud(uint64_t trial, std::size_t n, std::size_t length) {
  RandomStream random(83, Purpose::kData, trial);
  return random_rows(n, length, 0.3, random);
}

RobustOptions options_of(RobustKind kind, double byzantine, const std::string& before = "none") {
  return {.kind = kind, .byzantine = {byzantine}, .before = PreRules::parse(before)};
}

Mix mix_rows(const RobustOptions& options, const Rows& rows) {
  return mix_told(*make_robust(options),
                  {.rows = rows, .layers = {}, .losses = {}, .sizes = {}, .draw_weights = {}});
}

// A round of `participants` whose matrix has one more row than they are.
Mix mix_with_extra(const RobustOptions& options, const Rows& rows) {
  const Numbers gram = gram_of(rows);
  const std::size_t k = rows.size() - 1;
  const Numbers once(k, 1);
  return make_robust(options)->mix({.round = 1,
                                    .clients = all_clients(int64_t(k)),
                                    .lambda = once,
                                    .draw_weights = once,
                                    .losses = {},
                                    .gram = gram});
}

Numbers column_step(const Mix& mix, const Rows& rows) {
  std::vector<std::vector<float>> values;
  std::vector<const float*> pointers;
  for (const Numbers& row : rows) values.emplace_back(row.begin(), row.end());
  for (const auto& row : values) pointers.push_back(row.data());
  const std::size_t length = rows.front().size();
  const auto n = static_cast<std::size_t>(mix.columns->n);
  std::vector<int64_t> lattice(n * length);
  map_columns(*mix.columns, pointers, int64_t(length), lattice);
  Numbers out(length);
  mix_columns(mix.columns->rule, lattice, n, out);
  return out;
}

TEST(ByzantineCount, IsANumberAShareOrThatOfTheAttack) {
  EXPECT_EQ(ByzantineCount::parse("auto").of(10, 0.25), 3);
  EXPECT_EQ(ByzantineCount::parse("auto").of(10, 0), 0);
  EXPECT_EQ(ByzantineCount::parse("3").of(10, 0.1), 3);
  EXPECT_EQ(ByzantineCount::parse("0.2").of(10, 0), 2);
  EXPECT_EQ(ByzantineCount::parse("0.07").of(100, 0), 7);  // 7.000000000000001
  EXPECT_EQ(ByzantineCount::parse("0.21").of(10, 0), 3);
  for (const char* text : {"auto", "0", "3", "0.25"}) {
    EXPECT_EQ(ByzantineCount::parse(text).text(), text);
  }
  for (const char* text : {"", "-1", "0.5", "1.5", "inf", "nan", "some"}) {
    EXPECT_THROW(ByzantineCount::parse(text), InvalidArgument) << text;
  }
}

TEST(RobustRule, LeavesOutUpdatesThatAreNotFinite) {
  Rows rows = cloud(1, 7, 4);
  Rows finite = rows;
  finite.erase(finite.begin() + 2);
  rows[2][1] = NAN;
  for (const auto kind : {RobustKind::kMultiKrum, RobustKind::kGeometricMedian, RobustKind::kMda,
                          RobustKind::kCaf, RobustKind::kSmea}) {
    const Mix mix = mix_rows(options_of(kind, 2, "nnm"), rows);
    Numbers expected = mix_rows(options_of(kind, 1, "nnm"), finite).coefficients;
    expected.insert(expected.begin() + 2, 0);
    EXPECT_EQ(mix.coefficients, expected);
    EXPECT_EQ(mix.direction.dropped, 1);
    EXPECT_TRUE(std::isfinite(mix.direction.squared_norm));
  }
  rows[2][1] = INFINITY;
  const Mix mix = mix_rows(options_of(RobustKind::kKrum, 1), rows);
  EXPECT_EQ(mix.coefficients[2], 0);
  EXPECT_EQ(mix.direction.dropped, 1);
}

TEST(RobustRule, TellsWhatItRejectedAndHowFarTheBestLeads) {
  Rows rows{{0}, {1}, {2}, {4}, {5}, {NAN}};
  const auto rule = make_robust(options_of(RobustKind::kKrum, 2));
  Columns columns;
  rule->add_columns(columns);
  mix_told(*rule, {.rows = rows, .layers = {}, .losses = {}, .sizes = {}, .draw_weights = {}});
  const Metrics expected{{"rejected", 1}, {"krum_margin", 1.5}};
  EXPECT_EQ(columns.of_round(1), expected);
}

TEST(RobustRule, WithoutByzantineClientsIsFedAvgToTheLastBit) {
  const Rows rows = cloud(2, 10, 3);
  const auto fedavg = make_fedavg(ClientWeights::kUniform, Estimator::kNormalized, 10);
  const Told told{.rows = rows, .layers = {}, .losses = {}, .sizes = {}, .draw_weights = {}};
  const Numbers expected = mix_told(*fedavg, told).coefficients;
  for (const char* before : {"none", "nnm", "arc", "bucketing(1)", "arc,nnm", "clip(1e9)"}) {
    EXPECT_EQ(mix_rows(options_of(RobustKind::kMultiKrum, 0, before), rows).coefficients, expected)
        << before;
    RobustOptions mean = options_of(RobustKind::kMean, 0, before);
    mean.clients = 10;
    EXPECT_EQ(mix_rows(mean, rows).coefficients, expected) << before;
  }
}

TEST(RobustRule, BoundsTheNormsOfWeightedClients) {
  const Rows rows{{3, 4}, {0.3, 0.4}};
  RobustOptions options = options_of(RobustKind::kMean, 0, "clip(1)");
  options.weights = ClientWeights::kSamples;
  const auto rule = make_robust(options);
  EXPECT_TRUE(rule->needs().sizes);
  const Mix mix = mix_told(
      *rule, {.rows = rows, .layers = {}, .losses = {}, .sizes = {1, 3}, .draw_weights = {}});
  expect_near(mix.coefficients, {0.25 / 5, 0.75}, 1e-15);
  EXPECT_NEAR(mix.direction.squared_norm, std::pow(0.25 + 0.75 * 0.5, 2), 1e-12);
}

TEST(RobustRule, OfBucketsCountsTheirRowsTogether) {
  const Rows rows = cloud(3, 5, 2);
  RobustOptions options = options_of(RobustKind::kMean, 0, "bucketing(2)");
  options.clients = 5;
  const Numbers gram = gram_of(rows), once(5, 1);
  const Mix mix = make_robust(options)->mix({.round = 1,
                                             .clients = all_clients(5),
                                             .lambda = once,
                                             .draw_weights = once,
                                             .losses = {},
                                             .gram = gram});
  expect_near(mix.coefficients, Numbers(5, 0.2), 1e-15);
}

TEST(RobustRule, TakesTheRoundsPermutationOrDrawsIt) {
  const Rows rows = cloud(4, 6, 2);
  const Numbers gram = gram_of(rows), once(6, 1);
  const auto clients = all_clients(6);
  RobustOptions options = options_of(RobustKind::kKrum, 0, "bucketing(2)");
  options.seed = 9;
  const auto weights = [&](const std::vector<int64_t>& permutation) {
    return make_robust(options)
        ->mix({.round = 4,
               .clients = clients,
               .lambda = once,
               .draw_weights = once,
               .losses = {},
               .gram = gram,
               .permutation = permutation})
        .coefficients;
  };
  EXPECT_EQ(weights({}), weights(bucket_permutation(9, 4, 6)));
  const Numbers one = weights({0, 1, 2, 3, 4, 5});
  // One bucket of neighbours is chosen.
  bool found = false;
  for (std::size_t i = 0; i < 6; i += 2) {
    found = found || (one[i] == 0.5 && one[i + 1] == 0.5);
  }
  EXPECT_TRUE(found);
}

TEST(RobustRule, CountsItsExtraRowLast) {
  const Rows rows = cloud(5, 6, 3);
  RobustOptions clipping = options_of(RobustKind::kCenteredClipping, 1);
  clipping.radius = 0.5;
  EXPECT_EQ(make_robust(clipping)->needs().extra_row, ExtraRow::kLastStep);
  const Numbers gram = gram_of(rows);
  EXPECT_EQ(mix_with_extra(clipping, rows).coefficients,
            centered_clipping({gram, 6}, 5, 0.5, clipping.iterations));
  EXPECT_EQ(mix_rows(clipping, rows).coefficients,
            centered_clipping({gram, 6}, 6, 0.5, clipping.iterations));
  const RobustOptions trust = options_of(RobustKind::kFlTrust, 1);
  EXPECT_EQ(make_robust(trust)->needs().extra_row, ExtraRow::kServer);
  EXPECT_EQ(mix_with_extra(trust, rows).coefficients, trusted_mean({gram, 6}));
  EXPECT_THROW(mix_rows(trust, rows), InvalidArgument);
  // A row that is left out moves no other.
  Rows broken = rows;
  broken[1][0] = NAN;
  Rows finite = rows;
  finite.erase(finite.begin() + 1);
  Numbers expected = mix_with_extra(trust, finite).coefficients;
  expected.insert(expected.begin() + 1, 0);
  EXPECT_EQ(mix_with_extra(trust, broken).coefficients, expected);
}

TEST(RobustRule, ByColumnsGivesAMapAndARule) {
  Rows rows{{1, 9}, {2, 7}, {3, 8}, {100, -5}, {4, NAN}};
  const auto rule = make_robust(options_of(RobustKind::kTrimmedMean, 2));
  EXPECT_TRUE(rule->needs().columns);
  EXPECT_FALSE(rule->needs().gram);
  EXPECT_TRUE(rule->needs().after_training());
  Numbers norms, once(5, 1);
  for (const Numbers& row : rows) norms.push_back(dot(row, row));
  const Mix mix = rule->mix({.round = 1,
                             .clients = all_clients(5),
                             .lambda = once,
                             .draw_weights = once,
                             .losses = {},
                             .norms = norms});
  ASSERT_TRUE(mix.columns);
  EXPECT_EQ(mix.columns->n, 4);
  EXPECT_EQ(mix.columns->rule.count, 1);
  expect_near(column_step(mix, rows), {2.5, 7.5}, 0x1p-40);
  const auto with = make_robust(options_of(RobustKind::kMedian, 1, "nnm"));
  EXPECT_TRUE(with->needs().gram);
}

TEST(RobustRule, OfColumnsSeesTheMappedRows) {
  const Rows rows = cloud(6, 9, 5);
  const Numbers gram = gram_of(rows);
  MappedRows mapped({gram, 9});
  mapped.apply(PreRules::parse("clip(2),nnm"), 2, {});
  Rows clipped;
  const Numbers m = mapped.matrix();
  for (std::size_t a = 0; a < 9; ++a) {
    clipped.push_back(combination(std::span(m).subspan(a * 9, 9), rows));
  }
  const Mix mix = mix_rows(options_of(RobustKind::kMedian, 2, "clip(2),nnm"), rows);
  Numbers expected;
  for (std::size_t j = 0; j < 5; ++j) {
    Numbers column;
    for (const Numbers& row : clipped) column.push_back(row[j]);
    std::ranges::sort(column);
    expected.push_back(column[4]);
  }
  expect_near(column_step(mix, rows), expected, 1e-6);  // float32 rows
}

TEST(RobustRule, BulyanAveragesAroundTheMedianOfItsSelection) {
  const Rows rows = cloud(7, 8, 3);
  const Numbers gram = gram_of(rows);
  const auto chosen = bulyan_selection({gram, 8}, 1, Variant::kPaper);
  const Mix mix = mix_rows(options_of(RobustKind::kBulyan, 1), rows);
  ASSERT_EQ(mix.columns->n, 6);
  EXPECT_EQ(mix.columns->rule.count, 4);
  Numbers expected;
  for (std::size_t j = 0; j < 3; ++j) {
    Numbers column;
    for (const std::size_t i : chosen) column.push_back(rows[i][j]);
    std::ranges::sort(column);
    const double median = (column[2] + column[3]) / 2;
    std::ranges::sort(column, {}, [&](double x) { return std::abs(x - median); });
    expected.push_back(std::accumulate(column.begin(), column.begin() + 4, 0.0) / 4);
  }
  expect_near(column_step(mix, rows), expected, 1e-6);
}

TEST(RobustRule, WithTooFewRowsIsAnErrorOrNoStep) {
  const auto fails = [](RobustOptions options, std::size_t n, const std::string& word) {
    const Rows rows = cloud(8, n, 2);
    try {
      mix_rows(options, rows);
      ADD_FAILURE() << word;
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
    options.shortfall = Shortfall::kSkip;
    EXPECT_EQ(mix_rows(options, rows).coefficients, Numbers(n));
  };
  fails(options_of(RobustKind::kGeometricMedian, 2), 4, "less than half");
  fails(options_of(RobustKind::kKrum, 1), 3, "at least 4 rows");
  fails(options_of(RobustKind::kBulyan, 2), 10, "at least 11 rows");
  fails(options_of(RobustKind::kMda, 12), 30, "sets");
  fails(options_of(RobustKind::kCaf, 2, "bucketing(2)"), 8, "less than half");
  fails(options_of(RobustKind::kMonna, 0, "bucketing(2)"), 8, "bucketing");
  RobustOptions keep = options_of(RobustKind::kMultiKrum, 0);
  keep.keep = 9;
  fails(keep, 8, "aggregator.keep");
  RobustOptions monna = options_of(RobustKind::kMonna, 1);
  monna.pivot = 8;
  fails(monna, 8, "client 8");
  EXPECT_EQ(mix_rows(options_of(RobustKind::kMda, 3), cloud(9, 9, 2)).coefficients.size(), 9U);
}

}  // namespace
}  // namespace hanse
