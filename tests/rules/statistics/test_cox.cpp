// Cox's model against its plain definition: sums over the samples at risk, Newton by plain loops.
#include <cmath>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "statistics/information.hpp"
#include "table_of.hpp"

namespace hanse {
namespace {

using test::Division;
using test::fact_of;
using test::number;
using test::numbers_of;
using test::table_of;
using test::TableOf;

struct Row {
  double time, event, stratum;
  std::vector<double> x;
};

TableOf cox_table(const std::vector<Row>& rows) {
  std::vector<std::string> names{"time", "event", "stratum"};
  for (std::size_t j = 0; j < rows[0].x.size(); ++j) names.push_back("x" + std::to_string(j));
  names.emplace_back("label");
  std::vector<std::vector<double>> values;
  for (const Row& r : rows) {
    std::vector<double>& row = values.emplace_back(std::vector{r.time, r.event, r.stratum});
    row.insert(row.end(), r.x.begin(), r.x.end());
    row.push_back(0);
  }
  TableOf table(names, values);
  table.setup.options.columns = "x*";
  return table;
}

// Columns: an arm, a number, a number of another size. `steps` are times in all; 0: no ties.
std::vector<Row> cohort(unsigned n, unsigned seed, int steps) {
  std::mt19937 random(seed);
  const auto uniform = [&] { return (random() + 0.5) / 4294967296.0; };
  std::vector<Row> rows;
  for (unsigned i = 0; i < n; ++i) {
    const double arm = uniform() < 0.4 ? 1 : 0, age = std::floor(uniform() * 40) / 8;
    const double dose = std::floor(uniform() * 1000) * 4;
    const double stratum = uniform() < 0.5 ? 1 : 2;
    const double rate = std::exp(0.8 * arm - 0.3 * age + 0.0003 * dose);
    double time = -std::log(uniform()) / rate;
    time = steps > 0 ? std::floor(std::min(time, 3.0) / 3 * steps) : time + 1e-3;
    rows.push_back({static_cast<double>(static_cast<float>(time)),
                    uniform() < 0.7 ? 1.0 : 0.0,
                    stratum,
                    {arm, age, dose}});
  }
  return rows;
}

// The partial likelihood, its slope, and the information, of Efron's or Breslow's ties.
struct Point {
  double l = 0;
  std::vector<double> u, i;  // [p], packed
};

struct Model {
  std::vector<Row> rows;
  bool efron = true, strata = false;

  std::size_t p() const { return rows[0].x.size(); }
  double risk(const Row& row, const std::vector<double>& b) const {
    double eta = 0;
    for (std::size_t j = 0; j < p(); ++j) eta += b[j] * row.x[j];
    return std::exp(eta);
  }
  // Calls visit(time, stratum, f, s0, s1, s2) of each event.
  template <class Visit>
  void visit_events(const std::vector<double>& b, const Visit& visit) const {
    std::set<std::pair<double, double>> times;
    for (const Row& r : rows) {
      if (r.event == 1) times.insert({strata ? r.stratum : 0, r.time});
    }
    for (const auto& [stratum, time] : times) {
      int d = 0;
      for (const Row& r : rows) d += r.time == time && r.event == 1 && in(r, stratum) ? 1 : 0;
      for (int m = 0; m < d; ++m) {
        const double f = efron ? static_cast<double>(m) / d : 0;
        double s0 = 0;
        std::vector<double> s1(p()), s2(p() * p());
        for (const Row& r : rows) {
          if (!in(r, stratum) || r.time < time) continue;
          const bool is_tied = r.time == time && r.event == 1;
          const double w = risk(r, b) * (is_tied ? 1 - f : 1);
          s0 += w;
          for (std::size_t j = 0; j < p(); ++j) {
            s1[j] += w * r.x[j];
            for (std::size_t k = 0; k < p(); ++k) s2[j * p() + k] += w * r.x[j] * r.x[k];
          }
        }
        visit(time, stratum, m, d, s0, s1, s2);
      }
    }
  }
  bool in(const Row& row, double stratum) const { return !strata || row.stratum == stratum; }

  Point at(const std::vector<double>& b) const {
    Point point{0, std::vector<double>(p()), std::vector<double>(packed_size(p()))};
    for (const Row& r : rows) {
      if (r.event != 1) continue;
      point.l += std::log(risk(r, b));
      for (std::size_t j = 0; j < p(); ++j) point.u[j] += r.x[j];
    }
    visit_events(b, [&](double, double, int, int, double s0, const auto& s1, const auto& s2) {
      point.l -= std::log(s0);
      for (std::size_t j = 0; j < p(); ++j) {
        point.u[j] -= s1[j] / s0;
        for (std::size_t k = 0; k <= j; ++k) {
          point.i[packed_place(j, k)] += s2[j * p() + k] / s0 - s1[j] / s0 * s1[k] / s0;
        }
      }
    });
    return point;
  }

  std::vector<double> fit() const {
    std::vector<double> b(p());
    for (int step = 0; step < 25; ++step) {
      const Point point = at(b);
      const auto d = Information(point.i, p()).solve(point.u);
      for (std::size_t j = 0; j < p(); ++j) b[j] += d[j];
    }
    return b;
  }

  // Lin and Wei's sandwich, by the residual of each sample.
  std::vector<double> robust_errors(const std::vector<double>& b) const {
    std::vector<double> inverse = Information(at(b).i, p()).inverse(), meat(packed_size(p()));
    for (const Row& r : rows) {
      std::vector<double> l(p());
      visit_events(b, [&](double time, double stratum, int m, int d, double s0, const auto& s1,
                          const auto&) {
        if (!in(r, stratum) || r.time < time) return;
        const bool is_tied = r.time == time && r.event == 1;
        const double f = efron ? static_cast<double>(m) / d : 0;
        for (std::size_t j = 0; j < p(); ++j) {
          const double off = r.x[j] - s1[j] / s0;
          l[j] += (is_tied ? off / d : 0) - risk(r, b) * (is_tied ? 1 - f : 1) / s0 * off;
        }
      });
      for (std::size_t j = 0; j < p(); ++j) {
        for (std::size_t k = 0; k <= j; ++k) meat[packed_place(j, k)] += l[j] * l[k];
      }
    }
    std::vector<double> whole(p() * p()), errors;
    for (std::size_t j = 0; j < p(); ++j) {
      for (std::size_t k = 0; k < p(); ++k) whole[j * p() + k] = inverse[packed_place(j, k)];
    }
    const auto covariance = transformed(meat, whole, p());
    for (std::size_t j = 0; j < p(); ++j)
      errors.push_back(std::sqrt(covariance[packed_place(j, j)]));
    return errors;
  }
};

void expect_near(const std::vector<double>& found, const std::vector<double>& expected,
                 double relative) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], relative * std::abs(expected[i])) << i;
  }
}

TEST(Cox, IsItsDefinition) {
  for (const int steps : {0, 12}) {
    for (const bool efron : {true, false}) {
      for (const bool strata : {false, true}) {
        const Model model{cohort(120, 3, steps), efron, strata};
        auto table = cox_table(model.rows);
        table.setup.options.ties = efron ? CoxTies::kEfron : CoxTies::kBreslow;
        table.setup.options.strata = strata ? "stratum" : "";
        table.setup.options.robust = true;
        const auto result = table.run(make_cox);
        const auto b = model.fit();
        const Point top = model.at(b), null = model.at({0, 0, 0});
        const auto covariance = Information(top.i, 3).inverse();
        std::vector<double> errors;
        for (std::size_t j = 0; j < 3; ++j)
          errors.push_back(std::sqrt(covariance[packed_place(j, j)]));
        const auto& cox = table_of(result, "cox");
        expect_near(numbers_of(cox, "coefficient"), b, 1e-10);
        expect_near(numbers_of(cox, "naive_error"), errors, 1e-10);
        expect_near(numbers_of(cox, "standard_error"), model.robust_errors(b), 1e-10);
        EXPECT_NEAR(number(fact_of(result, "log_likelihood")), top.l, 1e-10);
        EXPECT_NEAR(number(fact_of(result, "null_log_likelihood")), null.l, 1e-10);
        const auto step = Information(null.i, 3).solve(null.u);
        const double score = step[0] * null.u[0] + step[1] * null.u[1] + step[2] * null.u[2];
        EXPECT_NEAR(number(fact_of(result, "score")) / score, 1, 1e-11);
      }
    }
  }
}

TEST(Cox, TellsTestsAndIntervalsOfItsCoefficients) {
  const auto result = cox_table(cohort(120, 4, 9)).run(make_cox);
  const auto& cox = table_of(result, "cox");
  const auto b = numbers_of(cox, "coefficient"), error = numbers_of(cox, "standard_error");
  const auto ratio = numbers_of(cox, "hazard_ratio"), low = numbers_of(cox, "ratio_low");
  const auto z = numbers_of(cox, "z"), p = numbers_of(cox, "p");
  for (std::size_t j = 0; j < 3; ++j) {
    EXPECT_NEAR(ratio[j], std::exp(b[j]), 1e-15 * ratio[j] * 8);
    EXPECT_NEAR(low[j], std::exp(b[j] - 1.959963984540054 * error[j]), 1e-13 * low[j]);
    EXPECT_DOUBLE_EQ(z[j], b[j] / error[j]);
    EXPECT_NEAR(p[j], std::erfc(std::abs(z[j]) / std::sqrt(2)), 1e-15);
  }
  EXPECT_NEAR(number(fact_of(result, "likelihood_ratio")),
              2 * (number(fact_of(result, "log_likelihood")) -
                   number(fact_of(result, "null_log_likelihood"))),
              1e-12);
}

// Breslow's sum of d / sum of exp(b (x - mean)), in each stratum.
TEST(Cox, BaselineHazardIsItsDefinition) {
  const Model model{cohort(100, 8, 10), true, true};
  auto table = cox_table(model.rows);
  table.setup.options.strata = "stratum";
  const auto result = table.run(make_cox);
  const auto b = numbers_of(table_of(result, "cox"), "coefficient");
  const auto mean = numbers_of(table_of(result, "cox"), "mean");
  double hazard = 0, stratum = 0;
  for (const auto& row : table_of(result, "cox-baseline").rows) {
    if (test::text(row[0]) != std::to_string(static_cast<int>(stratum))) {
      stratum = std::stod(test::text(row[0]));
      hazard = 0;
    }
    double s0 = 0, n = 0, d = 0;
    for (const Row& r : model.rows) {
      if (r.stratum != stratum || r.time < number(row[1])) continue;
      double eta = 0;
      for (std::size_t j = 0; j < 3; ++j) eta += b[j] * (r.x[j] - mean[j]);
      s0 += std::exp(eta);
      n += 1;
      d += r.time == number(row[1]) ? r.event : 0;
    }
    hazard += d / s0;
    EXPECT_EQ(number(row[2]), n);
    EXPECT_EQ(number(row[3]), d);
    EXPECT_NEAR(number(row[4]) / hazard, 1, 1e-12);
    EXPECT_NEAR(number(row[5]), std::exp(-hazard), 1e-13);
  }
  EXPECT_EQ(stratum, 2);
}

// For one column of 0 and 1 and no ties, the score test at 0 is the log-rank test.
TEST(Cox, ScoreTestOfTwoGroupsIsTheLogRankTest) {
  auto rows = cohort(200, 5, 0);
  for (Row& row : rows) row.x.resize(1);
  auto table = cox_table(rows);
  const double score = number(fact_of(table.run(make_cox), "score"));
  table.setup.options.by = "x0";
  EXPECT_NEAR(score / number(fact_of(table.run(make_log_rank), "chi2")), 1, 1e-12);
}

TEST(Cox, WithoutTiesEfronIsBreslow) {
  auto table = cox_table(cohort(150, 6, 0));
  const auto efron = numbers_of(table_of(table.run(make_cox), "cox"), "coefficient");
  table.setup.options.ties = CoxTies::kBreslow;
  EXPECT_EQ(numbers_of(table_of(table.run(make_cox), "cox"), "coefficient"), efron);
}

// Powers of two move no bit; 1e5 is another column in float32.
TEST(Cox, DoesNotMindTheColumnsSizes) {
  auto rows = cohort(150, 9, 15);
  const auto b = numbers_of(table_of(cox_table(rows).run(make_cox), "cox"), "coefficient");
  for (Row& row : rows) {
    row.x[0] *= 1e5;
    row.x[1] *= 1024;
    row.x[2] /= 65536;
  }
  const auto other = numbers_of(table_of(cox_table(rows).run(make_cox), "cox"), "coefficient");
  EXPECT_NEAR(other[0] * 1e5 / b[0], 1, 1e-10);
  EXPECT_NEAR(other[1] * 1024 / b[1], 1, 1e-10);
  EXPECT_NEAR(other[2] / 65536 / b[2], 1, 1e-10);
}

// exp(x.b) of the last risk sets is below 2^-42 of that of the first one.
TEST(Cox, HoldsRisksOfAnySize) {
  auto rows = cohort(60, 10, 0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double swing = i % 3 == 0 ? 3.5 : 0;
    rows[i].x = {static_cast<double>(i)};
    rows[i].time = 100 - static_cast<double>(i) + swing;
    rows[i].event = 1;
  }
  const Model model{rows};
  const auto b = numbers_of(table_of(cox_table(rows).run(make_cox), "cox"), "coefficient");
  EXPECT_GT(b[0] * 59, 30);
  expect_near(b, model.fit(), 1e-9);
}

TEST(Cox, ComparesCategoriesWithTheirFirstLevel) {
  auto rows = cohort(150, 12, 10);
  for (Row& row : rows) row.x = {std::floor(row.x[1] / 2)};
  auto table = cox_table(rows);
  table.levels("x0") = {"low", "middle", "high"};
  const auto result = table.run(make_cox);
  for (Row& row : rows) row.x = {row.x[0] == 1 ? 1.0 : 0.0, row.x[0] == 2 ? 1.0 : 0.0};
  expect_near(numbers_of(table_of(result, "cox"), "coefficient"), Model{rows}.fit(), 1e-10);
  EXPECT_EQ(test::text(table_of(result, "cox").rows[1][0]), "x0=high");
}

TEST(Cox, DoesNotDependOnHowSamplesAreDivided) {
  auto rows = cohort(210, 14, 20);
  rows[3].x[1] = std::nan("");
  rows[8].time = std::nan("");
  auto table = cox_table(rows);
  table.setup.options.strata = "stratum";
  table.setup.options.robust = true;
  std::vector<int64_t> expected;
  const auto result = table.run(make_cox, {}, &expected);
  EXPECT_EQ(number(fact_of(result, "missing")), 2);
  for (const int64_t clients : {1, 2, 7}) {
    for (const std::size_t ranks : {1, 2, 3, 4}) {
      std::vector<int64_t> integers;
      const Division division{clients, ranks, 1 + 16 * ranks};
      EXPECT_EQ(test::whole_text(table.run(make_cox, division, &integers)),
                test::whole_text(result));
      EXPECT_EQ(integers, expected);
    }
  }
}

// Clients' own fits are those of their samples alone; one without an event has none.
TEST(Cox, OfClientsHasAMetaAnalysis) {
  const auto rows = cohort(180, 15, 14);
  auto table = cox_table(rows);
  table.setup.options.by = "client";
  const auto client_of = [](std::size_t row) {
    return static_cast<int64_t>(row < 8 ? 2 : row % 2);
  };
  auto own = rows;
  for (std::size_t i = 0; i < 8; ++i) own[i].event = 0;
  table = cox_table(own);
  table.setup.options.by = "client";
  table.client_of = client_of;
  const auto result = table.run(make_cox, {.ranks = 3});
  const auto& groups = table_of(result, "cox-groups");
  for (int64_t client = 0; client < 2; ++client) {
    std::vector<Row> alone;
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (client_of(i) == client) alone.push_back(own[i]);
    }
    const auto fit = table_of(cox_table(alone).run(make_cox), "cox");
    for (std::size_t j = 0; j < 3; ++j) {
      const auto& line = groups.rows[3 * static_cast<std::size_t>(client) + j];
      EXPECT_NEAR(number(line[3]), number(fit.rows[j][1]), 1e-10);
      EXPECT_NEAR(number(line[4]), number(fit.rows[j][3]), 1e-10);
    }
  }
  ASSERT_EQ(groups.rows.size(), 7u);
  EXPECT_NE(test::text(groups.rows[6][5]).find("none of 8 samples has an event"),
            std::string::npos);
  EXPECT_EQ(numbers_of(table_of(result, "cox-meta"), "groups"), (std::vector<double>{2, 2, 2}));
  EXPECT_EQ(numbers_of(table_of(result, "cox-meta"), "pooled"),
            numbers_of(table_of(result, "cox"), "coefficient"));
}

void expect_refused(const std::vector<Row>& rows, const std::string& words,
                    const std::string& strata = "") {
  auto table = cox_table(rows);
  table.setup.options.strata = strata;
  try {
    table.run(make_cox);
    FAIL() << "not refused: " << words;
  } catch (const InvalidArgument& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find(words), std::string::npos) << what;
    EXPECT_EQ(what.find('\n'), std::string::npos);
  }
}

TEST(Cox, RefusesWhatHasNoEstimate) {
  const auto good = cohort(120, 16, 12);
  const auto with = [&](auto change) {
    auto rows = good;
    for (Row& row : rows) change(row);
    return rows;
  };
  expect_refused(with([](Row& r) { r.event = 0; }), "none of 120 samples has an event");
  expect_refused(with([](Row& r) { r.x[1] = 5; }), "'x1' is 5 in all samples");
  expect_refused(with([](Row& r) { r.x[2] = 3 * r.x[0] - 2 * r.x[1]; }),
                 "'x2' is a sum of multiples of columns before it");
  expect_refused(with([](Row& r) { r.x[1] = r.stratum; }),
                 "'x1' has one value in all samples at risk together", "stratum");
  // Every sample with the event has x0 = 1, and others are at risk: b goes to infinity.
  expect_refused(with([](Row& r) { r.event = r.x[0] == 1 ? r.event : 0; }),
                 "no finite estimate: 'x0' separates");
  expect_refused(with([](Row& r) { r.event = r.x[1] < 2.5 ? r.event : 0, r.x[1] = r.x[1] < 2.5; }),
                 "no finite estimate: 'x1' separates");
  expect_refused(with([](Row& r) { r.x[2] = std::numeric_limits<double>::infinity(); }),
                 "'x2' is infinite");
}

TEST(Cox, RefusesMoreTimesThanOneAnswerHolds) {
  std::vector<Row> rows;
  for (int i = 0; i < 30000; ++i) {
    Row& row = rows.emplace_back(Row{static_cast<double>(i), 1, 1, {}});
    for (int j = 0; j < 15; ++j) row.x.push_back((i >> j) % 2);
  }
  expect_refused(rows, "statistics.grid");
}

TEST(Cox, SaysWhenItsStepsEndTooEarly) {
  auto table = cox_table(cohort(120, 17, 12));
  table.setup.options.iterations = 1;
  EXPECT_THROW(table.run(make_cox), InvalidArgument);
}

}  // namespace
}  // namespace hanse
