// Generalized linear models by Fisher scoring over all samples.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "features.hpp"
#include "glm_family.hpp"
#include "glm_fit.hpp"
#include "glm_result.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "information.hpp"

namespace hanse {

namespace {

constexpr std::size_t kReaches = 6;  // largest |eta|, and weighted |y - mu|, slope, |deviance|,
                                     // (y - mu)^2 and 1

// Looks: extremes; sums; and for each fit two a step, how far the terms reach and then their sums.
// The fits: of the constant alone, of all features, and with statistics.by of each group. Features
// are centred and scaled to [-1, 1] on the way.
class Glm final : public Analysis {
 public:
  enum Step : int64_t { kExtremes, kSums, kReach, kLook, kSandwich };

  explicit Glm(const AnalysisSetup& setup)
      : options_(setup.options),
        table_(setup.table),
        groups_(table_, options_.by, "statistics.by"),
        target_(options_.target.empty() ? label_of_table()
                                        : table_.find(options_.target, "statistics.target")) {
    std::vector<std::size_t> apart = groups_.columns();
    apart.push_back(target_);
    for (const auto& [name, key, column] :
         {std::tuple{&options_.offset, "statistics.offset", &offset_},
          {&options_.weights, "statistics.weights", &weights_}}) {
      if (name->empty()) continue;
      *column = static_cast<int64_t>(table_.find(*name, key));
      apart.push_back(to_index(*column));
    }
    features_ = chosen_features(setup, CategoryCoding::kAgainstFirst, apart);
  }

  std::optional<Question> question() override {
    if (is_done_) return std::nullopt;
    Question question{step_, {low_, uses_features() ? 1.0 : 0.0, group()}};
    auto& numbers = question.numbers;
    if (step_ == kSums) numbers.insert(numbers.end(), reach_.begin(), reach_.end());
    if (step_ < kReach) return question;
    numbers.insert(numbers.end(), answer_.means.begin(), answer_.means.end());
    numbers.insert(numbers.end(), answer_.scales.begin(), answer_.scales.end());
    numbers.insert(numbers.end(), bounds_.begin(), bounds_.end());
    const auto& parameters = fit_->parameters();
    numbers.insert(numbers.end(), parameters.begin(), parameters.end());
    return question;
  }

  SampleFindings open(const Question& question) const override {
    SampleFindings findings;
    if (question.step == kExtremes) {
      findings.counts.resize(2);
      findings.largest = SampleFindings::none(2 * p() + 4);
      findings.distinct.resize(2);
    }
    if (question.step == kSums) {
      std::vector<double> bounds(question.numbers.begin() + 3, question.numbers.end());
      findings.sums = Tally(bounds);
    }
    const Asked asked(*this, question);
    if (question.step == kReach) findings.largest = SampleFindings::none(kReaches);
    if (question.step == kLook) findings.sums = Tally(look_bounds(asked));
    if (question.step == kSandwich) {
      findings.sums = Tally(packed_size(asked.q()), asked.bounds[4]);
    }
    return findings;
  }

  void look(const Question& question, const Samples& samples,
            SampleFindings& findings) const override {
    const Asked asked(*this, question);
    std::vector<double> x(p() + 1);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const float* row = samples.row(i);
      const bool known = known_features(features_, row, x.data()) && is_known(row);
      const double group = groups_.value_of(samples, i);
      if (question.step == kExtremes) {
        see_extremes(row, known, x, findings);
        if (known && !std::isnan(group)) findings.distinct[1].add(group);
        continue;
      }
      if (!known || (!std::isnan(asked.group) && group != asked.group)) continue;
      findings.sums.next_sample();
      if (question.step == kSums) {
        const double weight = weight_of(row), y = target_of(row, question.numbers[0]);
        for (std::size_t j = 0; j < p(); ++j) findings.sums.add(j, x[j]);
        findings.sums.add(p(), weight);
        const bool poisson = options_.family == GlmFamily::kPoisson;
        findings.sums.add(p() + 1, poisson ? weight * saturated_poisson(y) : 0);
        continue;
      }
      see_sample(asked, question.step, row, x, findings);
    }
  }

  void hear(SampleFindings findings) override {
    if (step_ == kExtremes) return take_extremes(findings);
    if (step_ == kSums) return take_sums(findings);
    if (step_ == kReach) {
      bounds_ = findings.largest;
      if (fit_->accepts(std::max(bounds_[0], 0.0))) step_ = kLook;
    } else if (step_ == kLook) {
      take_look(findings);
      step_ = kReach;
    } else {
      answer_.sandwich = findings.sums.values();
      return begin_next_fit();
    }
    if (fit_->end() != FitEnd::kNone) end_fit();
  }

  double value() const override { return fit_ ? fit_->deviance() : kNoNumber; }

  StatisticsResult result() const override { return glm_result(answer_, options_); }

 private:
  // The numbers of a question of a fit.
  struct Asked {
    Asked(const Glm& glm, const Question& question) : intercept(glm.options_.intercept ? 1 : 0) {
      if (question.step < kReach) return;
      low = question.numbers[0];
      p = question.numbers[1] > 0 ? glm.p() : 0;
      group = question.numbers[2];
      means = question.numbers.data() + 3;
      scales = means + glm.p();
      bounds = scales + glm.p();
      parameters = bounds + kReaches;
    }
    std::size_t q() const { return p + intercept; }

    std::size_t intercept, p = 0;
    double low = 0, group = kNoNumber;
    const double *means = nullptr, *scales = nullptr, *bounds = nullptr, *parameters = nullptr;
  };

  std::size_t label_of_table() const {
    if (table_.labels == 1) return table_.width() - 1;
    throw InvalidArgument("samples have several labels", "statistics.target", "name a column");
  }
  std::size_t p() const { return features_.size(); }
  std::size_t q() const { return p() + (options_.intercept ? 1 : 0); }
  bool uses_features() const { return fit_number_ > 0; }
  // The value of the group that is fitted; NaN: all samples are.
  double group() const { return fit_number_ < 2 ? kNoNumber : group_values_[fit_number_ - 2]; }

  bool is_known(const float* row) const {
    return !std::isnan(row[target_]) && (offset_ < 0 || !std::isnan(row[offset_])) &&
           (weights_ < 0 || !std::isnan(row[weights_]));
  }
  double weight_of(const float* row) const {
    return weights_ < 0 ? 1 : static_cast<double>(row[weights_]);
  }
  // The larger of the two values of a binomial law is 1.
  double target_of(const float* row, double low) const {
    const auto y = static_cast<double>(row[target_]);
    return options_.family == GlmFamily::kBinomial ? (y > low ? 1 : 0) : y;
  }

  void see_extremes(const float* row, bool known, const std::vector<double>& x,
                    SampleFindings& findings) const {
    ++findings.counts[known ? 0 : 1];
    if (!known) return;
    std::vector<double>& largest = findings.largest;
    const auto see = [&](std::size_t place, double value) {
      largest[place] = std::max(largest[place], value);
    };
    for (std::size_t j = 0; j < p(); ++j) {
      see(2 * j, x[j]);
      see(2 * j + 1, -x[j]);
    }
    const auto y = static_cast<double>(row[target_]);
    see(2 * p(), y);
    see(2 * p() + 1, -y);
    see(2 * p() + 2, weight_of(row));
    see(2 * p() + 3, -weight_of(row));
    const bool counts_values = options_.family == GlmFamily::kBinomial;
    if (counts_values && findings.distinct[0].sorted().size() < 4) findings.distinct[0].add(y);
  }

  // Writes what a fit sees of a sample to x [q]: the constant, and scaled features.
  double linear_part(const Asked& asked, const float* row, std::vector<double>& x) const {
    if (asked.intercept == 1) std::copy_backward(x.begin(), x.begin() + p(), x.begin() + p() + 1);
    double eta = offset_ < 0 ? 0 : static_cast<double>(row[offset_]);
    if (asked.intercept == 1) {
      x[0] = 1;
      eta += asked.parameters[0];
    }
    for (std::size_t j = 0; j < asked.p; ++j) {
      double& own = x[j + asked.intercept];
      own = (own - asked.means[j]) * asked.scales[j];
      eta += own * asked.parameters[j + asked.intercept];
    }
    return eta;
  }

  void see_sample(const Asked& asked, int64_t step, const float* row, std::vector<double>& x,
                  SampleFindings& findings) const {
    const double weight = weight_of(row), y = target_of(row, asked.low);
    const double eta = linear_part(asked, row, x);
    const GlmPoint point = glm_point(options_.family, y, eta);
    const double off = y - point.mu;
    const double terms[kReaches] = {std::abs(eta),        std::abs(weight * off),
                                    weight * point.slope, std::abs(weight * point.deviance),
                                    weight * (off * off), weight};
    if (step == kReach) {
      for (std::size_t k = 0; k < kReaches; ++k) {
        findings.largest[k] = std::max(findings.largest[k], terms[k]);
      }
      return;
    }
    const std::span<const double> seen(x.data(), asked.q());
    if (step == kSandwich) return findings.sums.add_products(0, terms[4], seen);
    findings.sums.add(0, weight * point.deviance);
    findings.sums.add(findings.sums.size() - 1, weight);
    if (asked.q() == 0) return;
    findings.sums.add_row(1, weight * off, seen);
    findings.sums.add_products(1 + asked.q(), weight * point.slope, seen);
  }

  static std::vector<double> look_bounds(const Asked& asked) {
    std::vector<double> bounds{asked.bounds[3]};
    bounds.insert(bounds.end(), asked.q(), asked.bounds[1]);
    bounds.insert(bounds.end(), packed_size(asked.q()), asked.bounds[2]);
    bounds.push_back(asked.bounds[5]);
    return bounds;
  }

  void take_extremes(SampleFindings& findings);
  void take_sums(SampleFindings& findings);
  void take_look(SampleFindings& findings);
  void begin_fit();
  void begin_next_fit();
  void end_fit();
  std::string why_not() const;

  StatisticsOptions options_;
  TableFacts table_;
  SampleGroups groups_;
  std::size_t target_;
  int64_t offset_ = -1, weights_ = -1;  // columns; -1: none
  std::vector<StatisticsFeature> features_;
  int64_t step_ = kExtremes;
  std::size_t fit_number_ = 0;  // 0: of the constant, 1: of all, then those of groups
  bool is_done_ = false;
  std::optional<GlmFit> fit_;
  double low_ = 0;               // of a binomial law: the value that counts 0
  std::vector<double> largest_;  // of take_extremes()
  std::vector<double> reach_;    // bounds of the terms of kSums
  std::vector<double> bounds_ = std::vector<double>(kReaches, 0.0);
  std::vector<double> group_values_;
  double weights_of_fit_ = 0;
  GlmAnswer answer_;
};

void Glm::take_extremes(SampleFindings& findings) {
  largest_ = findings.largest;
  answer_.used = findings.counts[0];
  answer_.left_out = findings.counts[1];
  answer_.target = table_.columns[target_].name;
  for (const auto& feature : features_) answer_.names.push_back(feature.name);
  group_values_ = findings.distinct[1].sorted();
  if (answer_.used == 0) {
    throw InvalidArgument("no sample has a value in every column", "statistics.columns",
                          "leave out a column that is empty");
  }
  if (groups_.are_asked()) groups_.check(group_values_);
  if (weights_ >= 0 && -largest_[2 * p() + 3] < 0) {
    throw InvalidArgument("a weight is negative", "statistics.weights", "they are frequencies");
  }
  if (options_.family == GlmFamily::kPoisson && -largest_[2 * p() + 1] < 0) {
    throw InvalidArgument(fmt::format("'{}' has negative values", answer_.target),
                          "statistics.target", "a Poisson law has none");
  }
  const std::vector<double>& values = findings.distinct[0].sorted();
  if (options_.family == GlmFamily::kBinomial && values.size() != 2) {
    throw InvalidArgument(fmt::format("'{}' has {} values", answer_.target,
                                      values.size() == 1  ? "one"
                                      : values.size() > 3 ? "more than three"
                                                          : "three"),
                          "statistics.target",
                          "a binomial law has two; statistics.family = gaussian, for example");
  }
  if (options_.family == GlmFamily::kBinomial) low_ = values[0];
  for (std::size_t j = 0; j < p(); ++j) {
    reach_.push_back(std::max(std::abs(largest_[2 * j]), std::abs(largest_[2 * j + 1])));
  }
  const double weight = largest_[2 * p() + 2];
  reach_.push_back(weight);
  reach_.push_back(weight * largest_saturated_poisson(largest_[2 * p()]));
  step_ = kSums;
}

void Glm::take_sums(SampleFindings& findings) {
  const std::vector<double> sums = findings.sums.values();
  answer_.intercept = options_.intercept;
  for (std::size_t j = 0; j < p(); ++j) {
    // Without a constant a shift of the features would change the model.
    const double mean = options_.intercept ? sums[j] / static_cast<double>(answer_.used) : 0;
    const double reach = std::max(largest_[2 * j] - mean, mean + largest_[2 * j + 1]);
    answer_.means.push_back(mean);
    answer_.scales.push_back(
        std::ldexp(1, -tally_exponent(options_.intercept ? reach : reach_[j])));
  }
  answer_.n = sums[p()];
  answer_.saturated = sums[p() + 1];
  begin_fit();
}

void Glm::begin_fit() {
  std::vector<double> start(uses_features() ? q() : q() - p(), 0.0);
  if (fit_number_ == 1 && options_.intercept) start[0] = fit_->parameters()[0];
  if (fit_number_ > 1) start = answer_.parameters;
  fit_.emplace(options_.family, std::move(start), options_.iterations, options_.tolerance);
  step_ = kReach;
}

void Glm::begin_next_fit() {
  is_done_ = ++fit_number_ == 2 + group_values_.size();
  if (!is_done_) begin_fit();
}

void Glm::take_look(SampleFindings& findings) {
  const std::size_t size = fit_->parameters().size();
  const std::vector<double> sums = findings.sums.values();
  const auto at = [&](std::size_t i) { return sums.begin() + static_cast<std::ptrdiff_t>(i); };
  fit_->take({.deviance = sums[0],
              .score = {at(1), at(1 + size)},
              .information = {at(1 + size), sums.end() - 1}});
  weights_of_fit_ = sums.back();
}

// Why the fit has no answer; empty: it has one.
std::string Glm::why_not() const {
  const std::size_t first = options_.intercept ? 1 : 0;
  const auto name = [&](std::size_t row) {
    return row < first ? std::string("the constant")
                       : fmt::format("column '{}'", features_[row - first].name);
  };
  if (fit_->end() == FitEnd::kDependent) {
    return fmt::format("{} is constant, or a sum of others: the fit has no one answer",
                       name(to_index(fit_->dependent())));
  }
  if (fit_->end() == FitEnd::kNoEnd) {
    return fmt::format("the fit does not end in {} steps", fit_->iterations());
  }
  if (fit_->end() != FitEnd::kSeparated) return "";
  const auto& b = fit_->parameters();
  const auto begin = b.begin() + static_cast<std::ptrdiff_t>(b.size() > first ? first : 0);
  const auto most = std::max_element(
      begin, b.end(), [](double one, double other) { return std::abs(one) < std::abs(other); });
  return fmt::format("no finite estimate: {} separates the classes",
                     name(static_cast<std::size_t>(most - b.begin())));
}

void Glm::end_fit() {
  const std::string why = why_not();
  if (fit_number_ < 2 && !why.empty()) {
    throw InvalidArgument(why, "statistics.columns", "leave the column out, or merge rare values");
  }
  if (fit_number_ == 0) answer_.null_deviance = fit_->deviance();
  if (fit_number_ > 1) {
    answer_.groups.push_back({groups_.name_of(group()), why, fit_->parameters(),
                              fit_->information(), fit_->deviance(), weights_of_fit_});
  }
  if (fit_number_ == 1) {
    answer_.parameters = fit_->parameters();
    answer_.information = fit_->information();
    answer_.deviance = fit_->deviance();
    answer_.iterations = fit_->iterations();
    if (options_.robust) {
      step_ = kSandwich;
      return;
    }
  }
  begin_next_fit();
}

}  // namespace

std::unique_ptr<Analysis> make_glm(const AnalysisSetup& setup) {
  return std::make_unique<Glm>(setup);
}

}  // namespace hanse
