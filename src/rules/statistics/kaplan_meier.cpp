// Kaplan and Meier's estimate of survival, with Greenwood's variance and intervals of
// log(-log S); and Nelson's and Aalen's of the cumulative hazard.
#include <algorithm>
#include <cmath>

#include "elementary.hpp"
#include "survival_times.hpp"

namespace hanse {

namespace {

constexpr double kNearHalf = 1e-12;  // a survival so near 1/2 counts as 1/2

// What is known of a group at one of its times.
struct CurveStep {
  double time = 0;
  int64_t at_risk = 0, events = 0, censored = 0;
  double survival = 1, error = kNoNumber, low = kNoNumber, high = kNoNumber, hazard = 0;
};

// S^exp(-+ z sqrt(sum d / (n (n - d))) / log S), at no event [1, 1], at S = 0 unknown.
void set_interval(CurveStep& step, double greenwood, double z) {
  if (step.survival == 0) return;
  step.error = step.survival * std::sqrt(greenwood);
  step.low = step.high = step.survival;
  if (step.survival == 1) return;
  const double log_s = log_of(step.survival);
  const double width = std::min(z * std::sqrt(greenwood) / -log_s, 700.0);
  step.low = exp_of(exp_of(width) * log_s);
  step.high = exp_of(exp_of(-width) * log_s);
}

// (G8). Between samples that are censored S falls as the number at risk does, so that S is this
// share of S at the last of them, with one rounding.
std::vector<CurveStep> curve_of(const LifeTable& table, double z) {
  std::vector<CurveStep> curve;
  const std::vector<int64_t> at_risk = table.at_risk();
  double base = 1, survival = 1, greenwood = 0, hazard = 0;
  double base_risk = table.size() == 0 ? 0 : static_cast<double>(at_risk[0]);
  for (std::size_t t = 0; t < table.size(); ++t) {
    const double n = static_cast<double>(at_risk[t]), d = static_cast<double>(table.events[t]);
    survival = base * ((n - d) / base_risk);
    if (d > 0) greenwood += d / (n * (n - d));
    hazard += d / n;
    CurveStep& step = curve.emplace_back(
        CurveStep{table.times[t], at_risk[t], table.events[t], table.censored[t], survival});
    step.hazard = hazard;
    set_interval(step, greenwood, z);
    if (table.censored[t] == 0) continue;
    base = survival;
    base_risk = n - d - static_cast<double>(table.censored[t]);
  }
  return curve;
}

// The least time at which a number of the curve is 1/2 or below; NaN: there is none.
double time_of_half(const std::vector<CurveStep>& curve, double CurveStep::*number) {
  for (const CurveStep& step : curve) {
    if (step.*number <= 0.5 + kNearHalf) return step.time;
  }
  return kNoNumber;
}

class KaplanMeier final : public SurvivalCounts {
 public:
  explicit KaplanMeier(const AnalysisSetup& setup) : SurvivalCounts(setup, "") {}

  StatisticsResult result() const override {
    StatisticsResult result;
    ResultTable curves{.name = "kaplan-meier",
                       .columns = {"group", "time", "at_risk", "events", "censored", "survival",
                                   "standard_error", "low", "high", "cumulative_hazard"},
                       .shown = false};
    ResultTable medians{"kaplan-meier-medians",
                        {"group", "n", "events", "median", "median_low", "median_high"}};
    const LifeTable all = table_of_stratum(0);
    int64_t hidden = add("all", all, curves, medians);
    for (std::size_t g = 0; by().are_asked() && g < groups(); ++g) {
      hidden += add(group_name(g), table(g, 0), curves, medians);
    }
    result.facts = {{"n", all.samples()},
                    {"total_events", all.all_events()},
                    {"missing", missing()},
                    {"suppressed", hidden}};
    result.tables = {std::move(curves), std::move(medians)};
    return result;
  }

 private:
  // Returns how many times are hidden, because too few samples are at risk.
  int64_t add(const std::string& group, const LifeTable& table, ResultTable& curves,
              ResultTable& medians) const {
    std::vector<CurveStep> curve = curve_of(table, normal_quantile(options().level));
    const auto hidden = std::erase_if(
        curve, [&](const CurveStep& step) { return step.at_risk < options().least_count; });
    for (const CurveStep& s : curve) {
      curves.rows.push_back({group, s.time, s.at_risk, s.events, s.censored, s.survival, s.error,
                             s.low, s.high, s.hazard});
    }
    const bool told = table.samples() >= options().least_count;
    medians.rows.push_back({group, told ? Cell(table.samples()) : Cell(kNoNumber),
                            told ? Cell(table.all_events()) : Cell(kNoNumber),
                            time_of_half(curve, &CurveStep::survival),
                            time_of_half(curve, &CurveStep::low),
                            time_of_half(curve, &CurveStep::high)});
    return static_cast<int64_t>(hidden);
  }
};

}  // namespace

std::unique_ptr<Analysis> make_kaplan_meier(const AnalysisSetup& setup) {
  return std::make_unique<KaplanMeier>(setup);
}

}  // namespace hanse
