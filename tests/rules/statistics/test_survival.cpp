// Kaplan-Meier and the log-rank test against their plain definitions.
#include <cmath>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "statistics/features.hpp"
#include "statistics/survival_times.hpp"
#include "table_of.hpp"

namespace hanse {
namespace {

using test::column_of;
using test::Division;
using test::fact_of;
using test::number;
using test::numbers_of;
using test::table_of;
using test::TableOf;

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

struct Row {
  double time, event, arm, site;
};

TableOf survival_table(const std::vector<Row>& rows) {
  std::vector<std::vector<double>> values;
  for (const Row& r : rows) values.push_back({r.time, r.event, r.arm, r.site, 0});
  return TableOf({"time", "event", "arm", "site", "label"}, values);
}

// Ties, censored samples among events, and groups without a row at most times.
std::vector<Row> cohort(unsigned n, unsigned seed, double arms = 3) {
  std::mt19937 random(seed);
  std::vector<Row> rows;
  for (unsigned i = 0; i < n; ++i) {
    const auto draw = [&](double below) { return std::floor(below * random() / 4294967296.0); };
    const double arm = draw(arms);
    rows.push_back({draw(25 + 5 * arm) / 4, draw(3) > 0 ? 1.0 : 0.0, arm, draw(2)});
  }
  return rows;
}

// Remission in weeks, 6-mercaptopurine (Freireich et al. 1963), the treated arm.
std::vector<Row> treated() {
  std::vector<Row> rows;
  for (const double t : {6, 6, 6, 7, 10, 13, 16, 22, 23}) rows.push_back({t, 1, 1, 0});
  for (const double t : {6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35})
    rows.push_back({t, 0, 1, 0});
  return rows;
}
std::vector<Row> placebo() {
  std::vector<Row> rows;
  for (const double t : {1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23}) {
    rows.push_back({t, 1, 0, 0});
  }
  return rows;
}
std::vector<Row> both_arms() {
  std::vector<Row> rows = treated();
  for (const Row& row : placebo()) rows.push_back(row);
  return rows;
}

TEST(KaplanMeier, IsThatOfTextbooks) {
  const auto result = survival_table(treated()).run(make_kaplan_meier);
  const auto& curve = table_of(result, "kaplan-meier");
  const auto times = numbers_of(curve, "time"), survival = numbers_of(curve, "survival");
  const std::map<double, double> expected = {{6, 18.0 / 21},
                                             {7, 18.0 / 21 * 16 / 17},
                                             {10, 18.0 / 21 * 16 / 17 * 14 / 15},
                                             {13, 18.0 / 21 * 16 / 17 * 14 / 15 * 11 / 12}};
  int found = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const auto own = expected.find(times[i]);
    if (own == expected.end()) continue;
    ++found;
    EXPECT_NEAR(survival[i], own->second, 1e-15);
  }
  EXPECT_EQ(found, 4);
  const auto& medians = table_of(result, "kaplan-meier-medians");
  EXPECT_EQ(numbers_of(medians, "median")[0], 23);
  EXPECT_EQ(numbers_of(medians, "median_low")[0], 13);  // of log(-log), as Kalbfleisch and Prentice
  EXPECT_TRUE(std::isnan(numbers_of(medians, "median_high")[0]));
}

// (G8) by its words, over the samples at risk at each time.
TEST(KaplanMeier, IsItsDefinition) {
  const auto rows = cohort(150, 3);
  auto table = survival_table(rows);
  table.setup.options.by = "arm";
  table.setup.options.level = 0.9;
  const ResultTable curve = table_of(table.run(make_kaplan_meier), "kaplan-meier");
  double s = 1, sum = 0, hazard = 0;
  std::string group;
  for (const auto& row : curve.rows) {
    if (test::text(row[0]) != group) s = 1, sum = 0, hazard = 0;
    group = test::text(row[0]);
    double n = 0, d = 0, c = 0;
    for (const Row& r : rows) {
      if (group != "all" && std::to_string(static_cast<int>(r.arm)) != group) continue;
      n += r.time >= number(row[1]) ? 1 : 0;
      d += r.time == number(row[1]) && r.event == 1 ? 1 : 0;
      c += r.time == number(row[1]) && r.event == 0 ? 1 : 0;
    }
    s *= 1 - d / n;
    sum += d / (n * (n - d));
    hazard += d / n;
    ASSERT_EQ(number(row[2]), n);
    ASSERT_EQ(number(row[3]), d);
    ASSERT_EQ(number(row[4]), c);
    ASSERT_NEAR(number(row[5]), s, 1e-14);
    ASSERT_NEAR(number(row[9]), hazard, 1e-13);
    if (s < 1e-12) {
      EXPECT_TRUE(std::isnan(number(row[6])));
      continue;
    }
    ASSERT_NEAR(number(row[6]), s * std::sqrt(sum), 1e-14);
    const double width = s == 1 ? 0 : 1.6448536269514722 * std::sqrt(sum) / std::log(s);
    ASSERT_NEAR(number(row[7]), std::pow(s, std::exp(-width)), 1e-13);
    ASSERT_NEAR(number(row[8]), std::pow(s, std::exp(width)), 1e-13);
  }
  EXPECT_EQ(group, "2");
}

// Without censoring, S is exactly the share of samples that are left.
TEST(KaplanMeier, WithoutCensoringIsTheEmpiricalLaw) {
  auto rows = cohort(97, 5);
  for (Row& row : rows) row.event = 1;
  const auto result = survival_table(rows).run(make_kaplan_meier);
  const auto& curve = table_of(result, "kaplan-meier");
  const auto times = numbers_of(curve, "time"), survival = numbers_of(curve, "survival");
  for (std::size_t i = 0; i < times.size(); ++i) {
    const auto later =
        std::ranges::count_if(rows, [&](const Row& row) { return row.time > times[i]; });
    EXPECT_EQ(survival[i], static_cast<double>(later) / 97);
  }
  EXPECT_EQ(survival.back(), 0);
}

TEST(KaplanMeier, HidesSmallRiskSets) {
  auto table = survival_table(treated());
  table.setup.options.least_count = 5;
  const auto result = table.run(make_kaplan_meier);
  const auto at_risk = numbers_of(table_of(result, "kaplan-meier"), "at_risk");
  EXPECT_EQ(at_risk.back(), 5);  // 32 and later are hidden: 4, 2, 1 samples
  EXPECT_EQ(number(fact_of(result, "suppressed")), 3);
}

TEST(KaplanMeier, RoundsTimesUpToTheGrid) {
  EXPECT_EQ(on_grid(0, 0.1), 0);
  EXPECT_DOUBLE_EQ(on_grid(static_cast<double>(0.3F), 0.1), 0.3);  // float32 has 0.30000001
  EXPECT_DOUBLE_EQ(on_grid(0.31, 0.1), 0.4);
  EXPECT_EQ(on_grid(7.5, 0), 7.5);
  auto table = survival_table(cohort(60, 1));
  table.setup.options.grid = 2;
  const auto result = table.run(make_kaplan_meier);
  for (const double time : numbers_of(table_of(result, "kaplan-meier"), "time")) {
    EXPECT_EQ(std::fmod(time, 2), 0);
  }
}

// (G9) by its words.
double chi2_of(const std::vector<Row>& rows, LogRankWeights weighting, bool strata) {
  double o[2] = {}, e[2] = {}, v = 0;  // of two arms
  std::map<std::pair<double, double>, int> times;
  for (const Row& r : rows) {
    if (r.event == 1) times[{strata ? r.site : 0, r.time}] = 1;
  }
  for (const auto& [key, unused] : times) {
    double n[2] = {}, d[2] = {};
    for (const Row& r : rows) {
      if (strata && r.site != key.first) continue;
      const int arm = static_cast<int>(r.arm);
      n[arm] += r.time >= key.second ? 1 : 0;
      d[arm] += r.time == key.second && r.event == 1 ? 1 : 0;
    }
    const double all = n[0] + n[1], events = d[0] + d[1];
    const double w = weighting == LogRankWeights::kLogRank    ? 1
                     : weighting == LogRankWeights::kWilcoxon ? all
                                                              : std::sqrt(all);
    o[0] += w * d[0];
    e[0] += w * events * n[0] / all;
    if (all > 1) {
      v += w * w * events * (all - events) / (all - 1) * n[0] / all * (1 - n[0] / all);
    }
  }
  return (o[0] - e[0]) * (o[0] - e[0]) / v;
}

TEST(LogRank, IsThatOfTextbooks) {
  auto table = survival_table(both_arms());
  table.setup.options.by = "arm";
  const auto result = table.run(make_log_rank);
  EXPECT_NEAR(number(fact_of(result, "chi2")), 16.79, 0.005);  // Freireich's trial
  const auto expected = numbers_of(table_of(result, "log-rank"), "expected");
  EXPECT_NEAR(expected[0], 10.75, 0.005);
  EXPECT_NEAR(expected[1], 19.25, 0.005);
  EXPECT_EQ(number(fact_of(result, "degrees")), 1);
}

TEST(LogRank, OfTwoGroupsIsItsDefinition) {
  const auto rows = cohort(120, 7, 2);
  for (const auto weighting :
       {LogRankWeights::kLogRank, LogRankWeights::kWilcoxon, LogRankWeights::kTaroneWare}) {
    for (const bool strata : {false, true}) {
      auto table = survival_table(rows);
      table.setup.options.by = "arm";
      table.setup.options.weighting = weighting;
      table.setup.options.strata = strata ? "site" : "";
      const double expected = chi2_of(rows, weighting, strata);
      const auto result = table.run(make_log_rank);
      EXPECT_NEAR(number(fact_of(result, "chi2")) / expected, 1, 1e-12);
      EXPECT_NEAR(number(fact_of(result, "p")) / chi_squared_p(expected, 1), 1, 1e-12);
    }
  }
}

// The group that is left out of chi^2 does not matter: three groups in any order.
TEST(LogRank, DoesNotDependOnTheOrderOfGroups) {
  auto rows = cohort(90, 11);
  std::vector<double> chi2;
  for (int turn = 0; turn < 3; ++turn) {
    for (Row& row : rows) row.arm = std::fmod(row.arm + 1, 3);
    auto table = survival_table(rows);
    table.setup.options.by = "arm";
    const auto result = table.run(make_log_rank);
    chi2.push_back(number(fact_of(result, "chi2")));
    EXPECT_EQ(number(fact_of(result, "degrees")), 2);
    double off = 0;
    for (const auto& row : table_of(result, "log-rank").rows)
      off += number(row[3]) - number(row[4]);
    EXPECT_NEAR(off, 0, 1e-12);
  }
  EXPECT_NEAR(chi2[1] / chi2[0], 1, 1e-12);
  EXPECT_NEAR(chi2[2] / chi2[0], 1, 1e-12);
}

// A group that is censored before the first event has no part in the test.
TEST(LogRank, LeavesOutGroupsThatAreNeverAtRisk) {
  auto rows = both_arms();
  rows.push_back({0.5, 0, 2, 0});
  auto table = survival_table(rows);
  table.setup.options.by = "arm";
  const auto result = table.run(make_log_rank);
  EXPECT_NEAR(number(fact_of(result, "chi2")), 16.79, 0.005);
  EXPECT_EQ(number(fact_of(result, "degrees")), 1);
  EXPECT_NE(result.notes.at(0).find("'2' is left out"), std::string::npos);
}

// All at risk have the event at the one time: nothing can be told.
TEST(LogRank, OfOneTimeAtWhichAllLeaveHasNoVariance) {
  auto table = survival_table({{3, 1, 0, 0}, {3, 1, 1, 0}, {3, 1, 1, 0}});
  table.setup.options.by = "arm";
  const auto result = table.run(make_log_rank);
  EXPECT_TRUE(std::isnan(number(fact_of(result, "chi2"))));
  EXPECT_NE(result.notes.at(0).find("no inverse"), std::string::npos);
}

TEST(LogRank, LeavesOutAndTellsStrataWithoutEvents) {
  auto rows = both_arms();
  rows.push_back({30, 0, 0, 1});
  auto table = survival_table(rows);
  table.setup.options.by = "arm";
  table.setup.options.strata = "site";
  const auto result = table.run(make_log_rank);
  EXPECT_NEAR(number(fact_of(result, "chi2")), 16.79, 0.005);
  EXPECT_EQ(result.notes.at(0), "strata without an event: 1");
}

TEST(Survival, DoesNotDependOnHowSamplesAreDivided) {
  auto rows = cohort(230, 13);
  rows[4].time = kMissing;
  rows[9].event = kMissing;
  rows[11].site = kMissing;
  auto table = survival_table(rows);
  table.setup.options.by = "arm";
  table.setup.options.strata = "site";
  for (const AnalysisMaker make : {make_kaplan_meier, make_log_rank}) {
    std::vector<int64_t> expected;
    const std::string text = test::whole_text(table.run(make, {}, &expected));
    for (const int64_t clients : {1, 2, 7}) {
      for (const std::size_t ranks : {1, 2, 3, 4}) {
        std::vector<int64_t> integers;
        const Division division{clients, ranks, 1 + 16 * ranks};
        EXPECT_EQ(test::whole_text(table.run(make, division, &integers)), text);
        EXPECT_EQ(integers, expected);
      }
    }
  }
  EXPECT_EQ(number(fact_of(table.run(make_kaplan_meier), "missing")), 2);
  EXPECT_EQ(number(fact_of(table.run(make_log_rank), "missing")), 3);
}

TEST(Survival, GroupsMayBeClients) {
  auto table = survival_table(both_arms());
  table.setup.options.by = "client";
  table.setup.table.clients = {"drug", "placebo"};
  table.client_of = [](std::size_t row) { return row < 21 ? 0 : 1; };
  const auto result = table.run(make_log_rank, {.clients = 2, .ranks = 3});
  EXPECT_NEAR(number(fact_of(result, "chi2")), 16.79, 0.005);
  EXPECT_EQ(test::text(table_of(result, "log-rank").rows[0][0]), "drug");
}

// Classes and categories whose names are numbers count as these, others are refused.
TEST(Survival, EventsMayBeNamesOfLevels) {
  auto rows = both_arms();
  for (Row& row : rows) row.event = 1 - row.event;
  auto table = survival_table(rows);
  table.levels("event") = {"1", "0"};
  table.setup.options.by = "arm";
  EXPECT_NEAR(number(fact_of(table.run(make_log_rank), "chi2")), 16.79, 0.005);
  table.levels("event") = {"dead", "alive"};
  EXPECT_THROW(table.run(make_log_rank), InvalidArgument);
}

void expect_refused(const TableOf& table, AnalysisMaker make, const std::string& words) {
  try {
    table.run(make);
    FAIL() << "not refused: " << words;
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(Survival, RefusesWhatIsNoSurvival) {
  const auto with = [](Row row) {
    auto rows = both_arms();
    rows.push_back(row);
    auto table = survival_table(rows);
    table.setup.options.by = "arm";
    return table;
  };
  for (const AnalysisMaker make : {make_kaplan_meier, make_log_rank, make_cox}) {
    expect_refused(with({-1, 1, 0, 0}), make, "time -1");
    expect_refused(with({std::numeric_limits<double>::infinity(), 1, 0, 0}), make, "time inf");
    expect_refused(with({4, 2, 0, 0}), make, "event 2");
    auto table = with({1, 1, 0, 0});
    table.setup.options.time = "weeks";
    expect_refused(table, make, "no column is called 'weeks'");
    table.setup.options.time = "event";
    expect_refused(table, make, "both the time and the event");
  }
  auto censored = both_arms();
  for (Row& row : censored) row.event = 0;
  auto table = survival_table(censored);
  EXPECT_EQ(numbers_of(table_of(table.run(make_kaplan_meier), "kaplan-meier"), "survival").back(),
            1);
  table.setup.options.by = "arm";
  expect_refused(table, make_log_rank, "no sample has an event");
  auto one = survival_table(treated());
  one.setup.options.by = "arm";
  expect_refused(one, make_log_rank, "one value");
  auto none = survival_table({{kMissing, 1, 0, 0}});
  expect_refused(none, make_kaplan_meier, "no sample has both");
}

}  // namespace
}  // namespace hanse
