#include "cox_fit.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "decompositions.hpp"
#include "hanse/base/error.hpp"

namespace hanse {

namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr std::size_t kMostCoxSums = 4000000;  // 128 MiB a message
constexpr int64_t kMostHalvings = 30;
constexpr double kFall = 1e-9;        // of a log-likelihood, by rounding
constexpr double kFlat = 1e-11;       // information per event of a feature that is constant
constexpr double kDependent = 1e-10;  // what others leave of a feature's information
constexpr double kNearEnd = 1e-6;     // decrements below it are those of a likelihood near its top
constexpr double kLongStep = 0.1;     // of x.b, too long so near the top

// The first row of a positive semidefinite matrix that depends on those before it, or -1.
Eigen::Index dependent_feature(const MatrixXd& matrix) {
  const VectorXd scale = matrix.diagonal().cwiseSqrt().cwiseInverse();
  MatrixXd root = MatrixXd::Zero(matrix.rows(), matrix.cols());
  for (Eigen::Index j = 0; j < matrix.rows(); ++j) {
    for (Eigen::Index k = 0; k < j; ++k) {
      const double rest = root.row(j).head(k).dot(root.row(k).head(k));
      root(j, k) = (matrix(j, k) * scale[j] * scale[k] - rest) / root(k, k);
    }
    const double pivot = 1 - root.row(j).head(j).squaredNorm();
    if (!(pivot > kDependent)) return j;
    root(j, j) = std::sqrt(pivot);
  }
  return -1;
}

VectorXd as_column(const std::vector<double>& list) {
  return Eigen::Map<const VectorXd>(list.data(), static_cast<Eigen::Index>(list.size()));
}

// b' V^-1 b; NaN where V has no inverse.
double wald_of(const VectorXd& b, const MatrixXd& covariance) {
  const Cholesky<ByColumns> root(covariance);
  return root.exists() ? b.dot(root.solve(b)) : std::nan("");
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

const std::string& CoxFit::name_of(Eigen::Index feature) const {
  return table_.features[static_cast<std::size_t>(feature)].name;
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

void CoxFit::try_at(const VectorXd& b) {
  asked_.b.assign(b.begin(), b.end());
  step_ = CoxStep::kReach;
}

void CoxFit::judge(CoxPoint point) {
  const double before = point_.log_likelihood;
  const bool falls =
      steps_ >= 0 && !(point.log_likelihood >= before - kFall * (1 + std::abs(before)));
  if (falls && halvings_ < kMostHalvings) {
    ++halvings_;
    try_at((as_column(found_.b) + as_column(tried_.b)) / 2);
    return;
  }
  if (falls) {
    throw InvalidArgument("no step raises the likelihood", "statistics.kind",
                          "a column of huge values, perhaps: statistics.columns");
  }
  halvings_ = 0;
  point_ = std::move(point);
  found_ = std::move(tried_);
  if (++steps_ == 0) {
    estimate_.null_log_likelihood = point_.log_likelihood;
    for (Eigen::Index j = 0; j < point_.score.size(); ++j) {
      if (point_.information(j, j) > kFlat * static_cast<double>(estimate_.events)) continue;
      throw InvalidArgument(
          fmt::format("'{}' has one value in all samples at risk together", name_of(j)),
          "statistics.columns", kColumnsHint);
    }
    if (const Eigen::Index j = dependent_feature(point_.information); j >= 0) {
      throw InvalidArgument(
          fmt::format("'{}' is a sum of multiples of columns before it", name_of(j)),
          "statistics.columns", kColumnsHint);
    }
  }
  take_step();
}

// b + I^-1 U; its decrement U' I^-1 U is the square of its length in standard errors.
void CoxFit::take_step() {
  const Eigen::Index p = point_.score.size();
  const Cholesky<ByColumns> root(point_.information);
  if (!root.exists()) refuse_separation(as_column(found_.b));
  const VectorXd step = root.solve(point_.score);
  const double decrement = std::max(point_.score.dot(step), 0.0);
  if (steps_ == 0) estimate_.score = decrement;
  check_separation(decrement, step);
  if (is_done(decrement)) {
    MatrixXd covariance(p, p);
    for (Eigen::Index j = 0; j < p; ++j) covariance.col(j) = root.solve(VectorXd::Unit(p, j));
    return finish(covariance);
  }
  if (steps_ >= table_.options.iterations) {
    throw InvalidArgument(fmt::format("the likelihood still rises after {} steps", steps_),
                          "statistics.iterations", "a larger number, or fewer columns");
  }
  last_decrement_ = decrement;
  try_at(as_column(found_.b) + step);
}

// Near the top Newton's steps are as short as rounding lets them be.
bool CoxFit::is_done(double decrement) const {
  if (std::sqrt(decrement) <= table_.options.tolerance) return true;
  return steps_ > 0 && decrement <= kNearEnd * kNearEnd && decrement > last_decrement_ / 4;
}

void CoxFit::check_separation(double decrement, const VectorXd& step) const {
  if (steps_ == 0 || decrement > kNearEnd || step.cwiseAbs().maxCoeff() < kLongStep) return;
  refuse_separation(as_column(found_.b) + step);
}

// A likelihood that rises for ever: b goes to infinity in steps of one length.
void CoxFit::refuse_separation(const VectorXd& b) const {
  Eigen::Index largest = 0;
  b.cwiseAbs().maxCoeff(&largest);
  throw InvalidArgument(
      fmt::format("no finite estimate: '{}' separates the samples with an event", name_of(largest)),
      "statistics.columns", kColumnsHint);
}

void CoxFit::finish(const MatrixXd& covariance) {
  const VectorXd b = as_column(found_.b);
  estimate_.iterations = steps_;
  estimate_.log_likelihood = point_.log_likelihood;
  estimate_.likelihood_ratio = 2 * (point_.log_likelihood - estimate_.null_log_likelihood);
  estimate_.wald = b.dot(point_.information * b);
  estimate_.means = asked_.means;
  estimate_.bins = bins_;
  estimate_.hazard = cox_baseline(bins_, found_);
  for (std::size_t j = 0; j < table_.p(); ++j) {
    const int unit = tally_exponent(asked_.reaches[j]);
    const auto at = static_cast<Eigen::Index>(j);
    estimate_.coefficients.push_back(std::ldexp(b[at], -unit));
    estimate_.naive_errors.push_back(std::ldexp(std::sqrt(covariance(at, at)), -unit));
  }
  estimate_.errors = estimate_.naive_errors;
  has_ended_ = !table_.options.robust;
  if (has_ended_) return;
  asked_.residual_rows = cox_residual_rows(bins_, table_.options.ties, found_);
  asked_.b = found_.b;
  asked_.shifts = found_.shifts;
  step_ = CoxStep::kResidualReach;
}

// I^-1 (sum of residuals' products) I^-1.
void CoxFit::take_residuals(Findings& findings) {
  const auto p = static_cast<Eigen::Index>(table_.p());
  MatrixXd products(p, p);
  for (std::size_t j = 0; j < table_.p(); ++j) {
    for (std::size_t k = 0; k < table_.p(); ++k) {
      const int unit = tally_exponent(asked_.bounds[j]) + tally_exponent(asked_.bounds[k]);
      products(static_cast<Eigen::Index>(j), static_cast<Eigen::Index>(k)) =
          std::ldexp(findings.sums.value(packed_place(j, k)), unit);
    }
  }
  const Cholesky<ByColumns> root(point_.information);
  MatrixXd half(p, p), covariance(p, p);
  for (Eigen::Index j = 0; j < p; ++j) half.col(j) = root.solve(products.col(j));
  for (Eigen::Index j = 0; j < p; ++j) covariance.col(j) = root.solve(half.transpose().col(j));
  for (Eigen::Index j = 0; j < p; ++j) {
    const auto at = static_cast<std::size_t>(j);
    estimate_.errors[at] =
        std::ldexp(std::sqrt(covariance(j, j)), -tally_exponent(asked_.reaches[at]));
  }
  estimate_.wald = wald_of(as_column(found_.b), covariance);
  has_ended_ = true;
}

}  // namespace hanse
