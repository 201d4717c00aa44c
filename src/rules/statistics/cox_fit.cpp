#include "cox_fit.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "hanse/base/error.hpp"

namespace hanse {

namespace {

constexpr std::size_t kMostCoxSums = 4000000;  // 128 MiB a message
constexpr int64_t kMostHalvings = 30;
constexpr double kFall = 1e-9;     // of a log-likelihood, by rounding
constexpr double kFlat = 1e-11;    // information per event of a feature that is constant
constexpr double kNearEnd = 1e-6;  // decrements below it are those of a likelihood near its top
constexpr double kLongStep = 0.1;  // of x.b, too long so near the top

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

const char* const kColumnsHint = "leave it out of statistics.columns";

}  // namespace

CoxFit::CoxFit(const CoxTable& table, std::vector<double> strata, double group) : table_(table) {
  asked_.group = group;
  asked_.strata = std::move(strata);
}

std::optional<Question> CoxFit::question() const {
  if (has_ended_) return std::nullopt;
  return asked_.question(step_);
}

void CoxFit::hear(Findings findings) {
  switch (step_) {
    case CoxStep::kValues: break;
    case CoxStep::kTimes: return take_times(findings);
    case CoxStep::kCounts: return take_counts(findings);
    case CoxStep::kReach: return take_reach(findings);
    case CoxStep::kTerms: return take_terms(findings);
    case CoxStep::kResidualReach:
      asked_.bounds = findings.largest;
      step_ = CoxStep::kResiduals;
      return;
    case CoxStep::kResiduals: return take_residuals(findings);
  }
  throw Error("a fit was told what it has not asked");
}

void CoxFit::take_times(Findings& findings) {
  estimate_.n = findings.counts[0];
  estimate_.events = findings.counts[1];
  estimate_.missing = findings.counts[2];
  if (estimate_.n < table_.options.least_count) {
    throw InvalidArgument(fmt::format("fewer than {} samples", table_.options.least_count),
                          "statistics.least-count");
  }
  if (estimate_.events == 0) {
    throw InvalidArgument(fmt::format("none of {} samples has an event", estimate_.n),
                          "statistics.event", "events are 1, censored samples 0");
  }
  for (std::size_t j = 0; j < table_.p(); ++j) {
    maxs_.push_back(findings.largest[2 * j]);
    mins_.push_back(-findings.largest[2 * j + 1]);
    const std::string& name = table_.features[j].name;
    if (!std::isfinite(maxs_[j]) || !std::isfinite(mins_[j])) {
      throw InvalidArgument(fmt::format("'{}' is infinite", name), "statistics.columns");
    }
    if (maxs_[j] == mins_[j]) {
      throw InvalidArgument(fmt::format("'{}' is {} in all samples", name, number_text(maxs_[j])),
                            "statistics.columns", kColumnsHint);
    }
    asked_.bounds.push_back(std::max(std::abs(maxs_[j]), std::abs(mins_[j])));
  }
  bins_.begins = {0};
  for (DistinctValues& own : findings.distinct) {
    asked_.times.push_back(own.sorted());
    bins_.times.insert(bins_.times.end(), own.sorted().begin(), own.sorted().end());
    bins_.begins.push_back(bins_.times.size());
  }
  step_ = CoxStep::kCounts;
}

void CoxFit::check_size() const {
  const std::size_t sums = (bins_.size() + bins_.ties) * cox_block(table_.p());
  if (sums <= kMostCoxSums) return;
  throw InvalidArgument(fmt::format("{} times with an event and {} columns need {} sums at once, "
                                    "{} are the most",
                                    bins_.size(), table_.p(), sums, kMostCoxSums),
                        "statistics.time", "statistics.grid rounds times up to its multiples");
}

void CoxFit::take_counts(Findings& findings) {
  for (std::size_t j = 0; j < bins_.size(); ++j) {
    bins_.events.push_back(findings.counts[2 * j]);
    bins_.samples.push_back(findings.counts[2 * j + 1]);
  }
  bins_.find_ties(table_.options.ties);
  check_size();
  asked_.tied.assign(bins_.tied.begin(), bins_.tied.end());
  for (std::size_t j = 0; j < table_.p(); ++j) {
    const double mean = findings.sums.value(j) / static_cast<double>(estimate_.n);
    asked_.means.push_back(mean);
    asked_.reaches.push_back(std::max(maxs_[j] - mean, mean - mins_[j]));
  }
  asked_.bounds.clear();
  asked_.b.assign(table_.p(), 0);
  asked_.shifts.assign(bins_.size(), 0);
  step_ = CoxStep::kTerms;
}

void CoxFit::take_reach(const Findings& findings) {
  asked_.shifts = findings.largest;
  for (std::size_t s = 0; s < bins_.strata(); ++s) {
    for (std::size_t j = bins_.begins[s + 1]; j-- > bins_.begins[s] + 1;) {
      asked_.shifts[j - 1] = std::max(asked_.shifts[j - 1], asked_.shifts[j]);
    }
  }
  step_ = CoxStep::kTerms;
}

void CoxFit::take_terms(Findings& findings) {
  tried_ = {asked_.b, asked_.shifts, findings.sums.values()};
  judge(cox_point(bins_, table_.options.ties, tried_));
}

void CoxFit::try_at(std::vector<double> b) {
  asked_.b = std::move(b);
  step_ = CoxStep::kReach;
}

void CoxFit::judge(CoxPoint point) {
  const double before = point_.log_likelihood, fall = kFall * (1 + std::abs(before));
  if (steps_ >= 0 && !(point.log_likelihood >= before - fall)) {
    if (++halvings_ > kMostHalvings) {
      throw InvalidArgument("no step raises the likelihood", "statistics.kind",
                            "a column of huge values, perhaps: statistics.columns");
    }
    std::vector<double> half(table_.p());
    for (std::size_t j = 0; j < half.size(); ++j) half[j] = (found_.b[j] + tried_.b[j]) / 2;
    return try_at(std::move(half));
  }
  halvings_ = 0;
  point_ = std::move(point);
  found_ = std::move(tried_);
  if (++steps_ == 0) check_features();
  take_step();
}

// At b = 0.
void CoxFit::check_features() const {
  for (std::size_t j = 0; j < table_.p(); ++j) {
    const double least = kFlat * static_cast<double>(estimate_.events);
    if (point_.information[packed_place(j, j)] > least) continue;
    throw InvalidArgument(
        fmt::format("'{}' has one value in all samples at risk together", table_.features[j].name),
        "statistics.columns", kColumnsHint);
  }
  const int64_t j = Information(point_.information, table_.p()).dependent();
  if (j < 0) return;
  throw InvalidArgument(fmt::format("'{}' is a sum of multiples of columns before it",
                                    table_.features[static_cast<std::size_t>(j)].name),
                        "statistics.columns", kColumnsHint);
}

// b + I^-1 U; its decrement U' I^-1 U is the square of its length in standard errors.
void CoxFit::take_step() {
  const Information information(point_.information, table_.p());
  if (information.dependent() >= 0) refuse_separation();
  std::vector<double> step = information.solve(point_.score);
  const double decrement = std::max(dot(point_.score, step), 0.0);
  if (steps_ == 0) {
    estimate_.null_log_likelihood = point_.log_likelihood;
    estimate_.score = decrement;
  }
  check_separation(decrement, step);
  if (is_done(decrement)) return finish(information);
  if (steps_ >= table_.options.iterations) {
    throw InvalidArgument(fmt::format("the likelihood still rises after {} steps", steps_),
                          "statistics.iterations", "a larger number, or fewer columns");
  }
  last_decrement_ = decrement;
  for (std::size_t j = 0; j < step.size(); ++j) step[j] += found_.b[j];
  try_at(std::move(step));
}

// Near the top Newton's steps are as short as rounding lets them be.
bool CoxFit::is_done(double decrement) const {
  if (std::sqrt(decrement) <= table_.options.tolerance) return true;
  return steps_ > 0 && decrement <= kNearEnd * kNearEnd && decrement > last_decrement_ / 4;
}

// A likelihood that rises for ever: b goes to infinity in steps of one length.
void CoxFit::check_separation(double decrement, const std::vector<double>& step) const {
  const auto is_long = [](double s) { return std::abs(s) >= kLongStep; };
  if (steps_ > 0 && decrement <= kNearEnd && std::ranges::any_of(step, is_long)) {
    refuse_separation();
  }
}

void CoxFit::refuse_separation() const {
  const auto largest = std::ranges::max_element(found_.b, {}, [](double b) { return std::abs(b); });
  const auto j = static_cast<std::size_t>(largest - found_.b.begin());
  throw InvalidArgument(fmt::format("no finite estimate: '{}' separates the samples with an event",
                                    table_.features[j].name),
                        "statistics.columns", kColumnsHint);
}

void CoxFit::finish(const Information& information) {
  const std::vector<double> covariance = information.inverse();
  for (std::size_t j = 0; j < table_.p(); ++j) {
    const int unit = tally_exponent(asked_.reaches[j]);
    const double variance = covariance[packed_place(j, j)];
    estimate_.coefficients.push_back(std::ldexp(found_.b[j], -unit));
    estimate_.naive_errors.push_back(std::ldexp(std::sqrt(variance), -unit));
    for (std::size_t k = 0; k < table_.p(); ++k) {
      estimate_.wald += found_.b[j] * point_.information[packed_place(j, k)] * found_.b[k];
    }
  }
  estimate_.errors = estimate_.naive_errors;
  estimate_.iterations = steps_;
  estimate_.log_likelihood = point_.log_likelihood;
  estimate_.likelihood_ratio = 2 * (point_.log_likelihood - estimate_.null_log_likelihood);
  estimate_.means = asked_.means;
  estimate_.bins = bins_;
  estimate_.hazard = cox_baseline(bins_, found_);
  has_ended_ = !table_.options.robust;
  if (has_ended_) return;
  asked_.residual_rows = cox_residual_rows(bins_, table_.options.ties, found_);
  asked_.b = found_.b;
  asked_.shifts = found_.shifts;
  step_ = CoxStep::kResidualReach;
}

// I^-1 (sum of residuals' products) I^-1.
void CoxFit::take_residuals(Findings& findings) {
  const std::size_t p = table_.p();
  const std::vector<double> inverse = Information(point_.information, p).inverse();
  std::vector<double> products = findings.sums.values(), whole;
  for (std::size_t j = 0; j < p; ++j) {
    for (std::size_t k = 0; k < p; ++k) {
      whole.push_back(inverse[packed_place(j, k)]);
      if (k > j) continue;
      double& product = products[packed_place(j, k)];
      product =
          std::ldexp(product, tally_exponent(asked_.bounds[j]) + tally_exponent(asked_.bounds[k]));
    }
  }
  const std::vector<double> covariance = transformed(products, whole, p);
  for (std::size_t j = 0; j < p; ++j) {
    estimate_.errors[j] =
        std::ldexp(std::sqrt(covariance[packed_place(j, j)]), -tally_exponent(asked_.reaches[j]));
  }
  const Information robust(covariance, p);
  estimate_.wald = robust.dependent() < 0 ? dot(found_.b, robust.solve(found_.b)) : kNoNumber;
  has_ended_ = true;
}

}  // namespace hanse
