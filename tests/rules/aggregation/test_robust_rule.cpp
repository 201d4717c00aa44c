#include <map>
#include <numeric>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/aggregation/robust_rule.hpp"
#include "rules/aggregation/robust_weights.hpp"

namespace hanse {
namespace {

Rows cloud(uint64_t trial, std::size_t n, std::size_t length) {
  RandomStream random(83, Purpose::kData, trial);
  return random_rows(n, length, 0.3, random);
}

RobustOptions options_of(const std::string& kind, double byzantine,
                         const std::string& before = "none") {
  RobustOptions options;
  options.kind = kind;
  options.byzantine = {byzantine};
  options.before = PreRules::parse(before);
  options.weights = ClientWeights::kUniform;
  return options;
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
  for (const char* kind : {"multi-krum", "geometric-median", "mda", "caf", "smea"}) {
    const Mix mix = mix_rows(options_of(kind, 2, "nnm"), rows);
    Numbers expected = mix_rows(options_of(kind, 1, "nnm"), finite).coefficients;
    expected.insert(expected.begin() + 2, 0);
    EXPECT_EQ(mix.coefficients, expected);
    EXPECT_EQ(mix.direction.dropped, 1);
    EXPECT_TRUE(std::isfinite(mix.direction.squared_norm));
  }
  rows[2][1] = INFINITY;
  const Mix mix = mix_rows(options_of("krum", 1), rows);
  EXPECT_EQ(mix.coefficients[2], 0);
  EXPECT_EQ(mix.direction.dropped, 1);
}

TEST(RobustRule, TellsWhatItRejectedAndHowFarTheBestLeads) {
  Rows rows{{0}, {1}, {2}, {4}, {5}, {NAN}};
  const auto rule = make_robust(options_of("krum", 2));
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
    EXPECT_EQ(mix_rows(options_of("multi-krum", 0, before), rows).coefficients, expected) << before;
    RobustOptions mean = options_of("fedavg", 0, before);
    mean.clients = 10;
    EXPECT_EQ(mix_rows(mean, rows).coefficients, expected) << before;
  }
}

TEST(RobustRule, BoundsTheNormsOfWeightedClients) {
  const Rows rows{{3, 4}, {0.3, 0.4}};
  RobustOptions options = options_of("fedavg", 0, "clip(1)");
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
  RobustOptions options = options_of("fedavg", 0, "bucketing(2)");
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
  RobustOptions options = options_of("krum", 0, "bucketing(2)");
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
  RobustOptions clipping = options_of("centered-clipping", 1);
  clipping.radius = 0.5;
  EXPECT_EQ(make_robust(clipping)->needs().extra_row, ExtraRow::kLastStep);
  const Numbers gram = gram_of(rows);
  EXPECT_EQ(mix_with_extra(clipping, rows).coefficients,
            centered_clipping({gram, 6}, 5, 0.5, clipping.iterations));
  EXPECT_EQ(mix_rows(clipping, rows).coefficients,
            centered_clipping({gram, 6}, 6, 0.5, clipping.iterations));
  const RobustOptions trust = options_of("fltrust", 1);
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
  const auto rule = make_robust(options_of("trimmed-mean", 2));
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
  const auto with = make_robust(options_of("median", 1, "nnm"));
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
  const Mix mix = mix_rows(options_of("median", 2, "clip(2),nnm"), rows);
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
  const auto chosen = bulyan_selection({gram, 8}, 1);
  const Mix mix = mix_rows(options_of("bulyan", 1), rows);
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

// The least n for f = 1 and f = 3, by the rules' papers.
TEST(RobustRule, NeedsTheRowsOfItsPaper) {
  const auto least = [](const RobustOptions& options, int64_t f) {
    int64_t n = 1;
    while (shortfall_of(options, n, f)) ++n;
    for (int64_t more = n; more < n + 9; ++more) EXPECT_FALSE(shortfall_of(options, more, f));
    return n;
  };
  const std::map<std::string, std::pair<int64_t, int64_t>> bounds{{"fedavg", {1, 1}},
                                                                  {"krum", {5, 9}},
                                                                  {"multi-krum", {5, 9}},
                                                                  {"mda", {3, 7}},
                                                                  {"monna", {3, 7}},
                                                                  {"geometric-median", {3, 7}},
                                                                  {"centered-clipping", {3, 7}},
                                                                  {"fltrust", {1, 1}},
                                                                  {"smea", {3, 7}},
                                                                  {"caf", {3, 7}},
                                                                  {"median", {3, 7}},
                                                                  {"trimmed-mean", {3, 7}},
                                                                  {"meamed", {3, 7}},
                                                                  {"bulyan", {7, 15}}};
  EXPECT_EQ(bounds.size(), robust_rules().size() + 1);
  for (const auto& [kind, least_n] : bounds) {
    RobustOptions options = options_of(kind, 0);
    EXPECT_EQ(least(options, 1), least_n.first) << kind;
    EXPECT_EQ(least(options, 3), least_n.second) << kind;
    for (const char* before : {"nnm", "arc"}) {
      options.before = PreRules::parse(before);
      EXPECT_EQ(least(options, 3), std::max<int64_t>(7, least_n.second)) << kind;
    }
    if (kind == "monna") continue;  // a conflict of jobs
    options.before = PreRules::parse("bucketing(2)");
    EXPECT_EQ(least(options, 3), 2 * least_n.second - 1) << kind;
  }
  RobustOptions krum = options_of("krum", 0);
  krum.variant = Variant::kReference;
  EXPECT_EQ(least(krum, 3), 7);
}

// Krum behind nnm, in whole numbers: n - f times the mapped rows are sums of rows, of which many
// are the same.
TEST(RobustRule, KrumBehindNnmLeavesTiesToThePlaces) {
  using Whole = std::vector<std::vector<int64_t>>;
  const auto square = [](const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
    int64_t sum = 0;
    for (std::size_t j = 0; j < a.size(); ++j) sum += (a[j] - b[j]) * (a[j] - b[j]);
    return sum;
  };
  // The `count` least of some numbers, by their places.
  const auto least = [](const std::vector<int64_t>& numbers, std::size_t count) {
    std::vector<std::size_t> places(numbers.size());
    std::iota(places.begin(), places.end(), std::size_t{0});
    std::ranges::stable_sort(places, {}, [&](std::size_t i) { return numbers[i]; });
    places.resize(count);
    return places;
  };
  RandomStream random(101, Purpose::kData, 0);
  int64_t ties = 0;
  for (int trial = 0; trial < 600; ++trial) {
    const auto n = std::size_t(5 + random.below(6));
    const std::size_t f = n < 7 ? 1 : n < 9 ? 1 + random.below(2) : 1 + random.below(3);
    Whole rows(n, std::vector<int64_t>(3));
    for (auto& row : rows) {
      for (int64_t& x : row) x = random.below(1 << 20) - (1 << 19);
    }
    Whole mapped(n, std::vector<int64_t>(3));
    std::vector<std::vector<std::size_t>> nearest;
    for (std::size_t a = 0; a < n; ++a) {
      std::vector<int64_t> away;
      for (const auto& row : rows) away.push_back(square(rows[a], row));
      away[a] = -1;
      nearest.push_back(least(away, n - f));
      for (const std::size_t i : nearest[a]) {
        for (std::size_t j = 0; j < 3; ++j) mapped[a][j] += rows[i][j];
      }
    }
    if (2 * f + 3 > n) continue;
    std::vector<int64_t> scores;
    for (std::size_t a = 0; a < n; ++a) {
      std::vector<int64_t> away;
      for (std::size_t b = 0; b < n; ++b) {
        if (b != a) away.push_back(square(mapped[a], mapped[b]));
      }
      std::ranges::sort(away);
      scores.push_back(std::accumulate(away.begin(), away.begin() + long(n - f - 2), int64_t{0}));
    }
    const std::size_t best = least(scores, 1)[0];
    ties += std::ranges::count(scores, scores[best]) > 1;
    Numbers expected(n);
    for (const std::size_t i : nearest[best]) expected[i] = 1 / double(n - f);
    Rows real;
    for (const auto& row : rows) real.emplace_back(row.begin(), row.end());
    expect_near(mix_rows(options_of("krum", double(f), "nnm"), real).coefficients, expected, 1e-14);
  }
  EXPECT_GT(ties, 100);
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
  fails(options_of("geometric-median", 2), 4, "at least 5 rows");
  fails(options_of("krum", 1), 4, "at least 5 rows");
  fails(options_of("bulyan", 2), 10, "at least 11 rows");
  fails(options_of("mda", 12), 30, "draw fewer");
  fails(options_of("smea", 12), 30, "sets");
  fails(options_of("caf", 2, "bucketing(2)"), 8, "caf with f = 2 needs at least 5 rows");
  fails(options_of("fedavg", 2, "nnm"), 4, "nnm with f = 2 needs at least 5 rows");
  RobustOptions keep = options_of("multi-krum", 0);
  keep.keep = 9;
  fails(keep, 8, "aggregator.keep");
  RobustOptions monna = options_of("monna", 1);
  monna.pivot = 8;
  fails(monna, 8, "client 8");
  EXPECT_EQ(mix_rows(options_of("mda", 3), cloud(9, 9, 2)).coefficients.size(), 9U);
}

}  // namespace
}  // namespace hanse
