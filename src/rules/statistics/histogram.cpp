// Counts of columns by bins, with the same ends for every group.
#include <algorithm>
#include <cmath>

#include "grouped_analysis.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

namespace {

// The bin of x among ascending ends: [end k, end k + 1), the last one closed; -1 below, `bins`
// above.
int64_t bin_of(const double* ends, int64_t bins, double x) {
  if (x == ends[bins]) return bins - 1;
  return std::upper_bound(ends, ends + bins + 1, x) - ends - 1;
}

// Looks: the groups; extremes, unless the ends are given; counts.
class Histogram final : public GroupedAnalysis {
 public:
  enum Step : int64_t { kExtremes = kGroups + 1, kCounts, kEnd };

  explicit Histogram(const AnalysisSetup& setup)
      : GroupedAnalysis(setup, CategoryCoding::kNone),
        bins_(options_.edges.empty() ? options_.bins : std::ssize(options_.edges) - 1),
        step_(options_.edges.empty() ? kExtremes : kCounts) {
    for (std::size_t j = 0; !options_.edges.empty() && j < features_.size(); ++j) {
      ends_.insert(ends_.end(), options_.edges.begin(), options_.edges.end());
    }
  }

  std::optional<Question> next_question() override {
    if (step_ == kEnd) return std::nullopt;
    Question question = AskedGroups::question(step_, values_);
    auto& numbers = question.numbers;
    if (step_ == kCounts) numbers.insert(numbers.end(), ends_.begin(), ends_.end());
    return question;
  }

  SampleFindings open_next(const Question& question) const override {
    SampleFindings findings;
    if (question.step == kExtremes) findings.largest = SampleFindings::none(2 * features_.size());
    if (question.step == kCounts) {
      const std::size_t groups = AskedGroups(question).count + 1;
      findings.counts.resize(groups * features_.size() * cells());
    }
    return findings;
  }

  void look_next(const Question& question, const Samples& samples,
                 SampleFindings& findings) const override {
    const AskedGroups groups(question);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const double group = groups_.value_of(samples, i);
      for (std::size_t j = 0; j < features_.size(); ++j) {
        const double x = features_[j].of(samples.row(i));
        if (std::isnan(x)) continue;
        if (question.step == kExtremes) {
          findings.largest[2 * j] = std::max(findings.largest[2 * j], x);
          findings.largest[2 * j + 1] = std::max(findings.largest[2 * j + 1], -x);
          continue;
        }
        const double* ends = groups.rest + j * to_index(bins_ + 1);
        const std::size_t cell = j * cells() + to_index(bin_of(ends, bins_, x) + 1);
        ++findings.counts[cell];
        if (const auto own = groups.place(group)) {
          ++findings.counts[*own * features_.size() * cells() + cell];
        }
      }
    }
  }

  void hear_next(SampleFindings& findings) override {
    if (step_ == kExtremes) make_ends(findings.largest);
    if (step_ == kCounts) counts_ = findings.counts;
    ++step_;
  }

  StatisticsResult result() const override {
    ResultTable table = grouped_table("histogram", {"column", "low", "high", "count"});
    int64_t suppressed = 0;
    for (std::size_t group = 0; group <= values_.size(); ++group) {
      for (std::size_t j = 0; j < features_.size(); ++j) {
        for (std::size_t cell = 0; cell < cells(); ++cell) {
          suppressed += add_bin(table, group, j, cell) ? 1 : 0;
        }
      }
    }
    return {.facts = {{"suppressed", suppressed}}, .tables = {std::move(table)}};
  }

 private:
  std::size_t cells() const { return to_index(bins_ + 2); }  // and those below and above

  // numpy's: of equal values, a bin of width 1 around them.
  void make_ends(const std::vector<double>& largest) {
    for (std::size_t j = 0; j < features_.size(); ++j) {
      double high = largest[2 * j], low = -largest[2 * j + 1];
      if (std::isinf(high)) low = high = 0;
      if (low == high) {
        low -= 0.5;
        high += 0.5;
      }
      for (int64_t k = 0; k <= bins_; ++k) {
        const double part = static_cast<double>(k) / static_cast<double>(bins_);
        ends_.push_back(k == bins_ ? high : low + (high - low) * part);
      }
    }
  }

  // Adds a line, but for those outside the ends without a sample; true: its count is not told.
  bool add_bin(ResultTable& table, std::size_t group, std::size_t j, std::size_t cell) const {
    const int64_t count = counts_[(group * features_.size() + j) * cells() + cell];
    const bool outside = cell == 0 || cell + 1 == cells();
    if (outside && count == 0) return false;
    const bool hidden = count > 0 && count < options_.least_count;
    std::vector<Cell>& row = add_row(table, group);
    row.emplace_back(features_[j].name);
    const double* ends = ends_.data() + j * to_index(bins_ + 1);
    row.emplace_back(cell == 0 ? -INFINITY : ends[cell - 1]);
    row.emplace_back(cell + 1 == cells() ? INFINITY : ends[cell]);
    if (hidden) {
      row.emplace_back(std::nan(""));
    } else {
      row.emplace_back(count);
    }
    return hidden;
  }

  int64_t bins_;
  int64_t step_;
  std::vector<double> ends_;     // [columns, bins + 1]
  std::vector<int64_t> counts_;  // [1 + groups, columns, bins + 2]
};

}  // namespace

std::unique_ptr<Analysis> make_histogram(const AnalysisSetup& setup) {
  return std::make_unique<Histogram>(setup);
}

}  // namespace hanse
