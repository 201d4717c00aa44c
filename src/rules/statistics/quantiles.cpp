// Exact quantiles by bisection over the ordered bits of float32.
#include <bit>
#include <cmath>

#include "grouped_analysis.hpp"

namespace hanse {

namespace {

constexpr int64_t kBisections = 32;  // of 2^32 keys

// Keys ascend as numbers do, in float32.
uint32_t key_of(float x) {
  const auto bits = std::bit_cast<uint32_t>(x + 0.0F);  // 0 for -0
  return bits ^ ((bits >> 31) != 0 ? 0xFFFFFFFFU : 0x80000000U);
}

float number_of(uint32_t key) {
  return std::bit_cast<float>(key ^ ((key >> 31) != 0 ? 0x80000000U : 0xFFFFFFFFU));
}

// A quantile on its way: the least key with so many samples at or below it lies in [low, high].
struct Search {
  int64_t rank = 0;  // max(1, ceil(p n - 1e-9)); 0: no sample
  int64_t low = 0, high = 0xFFFFFFFF;

  int64_t middle() const { return low + (high - low) / 2; }
};

// Looks: the groups; numbers of samples; and 32 of how many lie at or below the middles.
class Quantiles final : public GroupedAnalysis {
 public:
  enum Step : int64_t { kCounts = kGroups + 1, kBisect };

  explicit Quantiles(const AnalysisSetup& setup)
      : GroupedAnalysis(setup, CategoryCoding::kNone), step_(kCounts) {}

  std::optional<Question> next_question() override {
    if (bisections_ == kBisections) return std::nullopt;
    Question question = AskedGroups::question(step_, values_);
    for (const Search& search : searches_) {
      question.numbers.push_back(static_cast<double>(search.middle()));
    }
    return question;
  }

  SampleFindings open_next(const Question& question) const override {
    SampleFindings findings;
    const std::size_t cells = (AskedGroups(question).count + 1) * features_.size();
    findings.counts.resize(question.step == kCounts ? cells : cells * each());
    return findings;
  }

  void look_next(const Question& question, const Samples& samples,
                 SampleFindings& findings) const override {
    const AskedGroups groups(question);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const double group = groups_.value_of(samples, i);
      count(question.step, groups.rest, 0, samples.row(i), findings);
      if (const auto own = groups.place(group)) {
        count(question.step, groups.rest, *own, samples.row(i), findings);
      }
    }
  }

  void hear_next(SampleFindings& findings) override {
    if (step_ == kCounts) begin(findings.counts);
    if (step_ == kBisect) halve(findings.counts);
    if (step_ < kBisect) ++step_;
  }

  StatisticsResult result() const override {
    ResultTable table = grouped_table("quantiles", {"column", "n", "probability", "quantile"});
    int64_t suppressed = 0;
    for (std::size_t cell = 0; cell < counts_.size(); ++cell) {
      const bool hidden = counts_[cell] < options_.least_count;
      suppressed += hidden ? 1 : 0;
      for (std::size_t k = 0; k < each(); ++k) add_quantile(table, cell, k, hidden);
    }
    return {.facts = {{"suppressed", suppressed}}, .tables = {std::move(table)}};
  }

 private:
  std::size_t each() const { return options_.probabilities.size(); }

  void count(int64_t step, const double* middles, std::size_t group, const float* row,
             SampleFindings& findings) const {
    for (std::size_t j = 0; j < features_.size(); ++j) {
      const float x = row[features_[j].column];
      if (std::isnan(x)) continue;
      const std::size_t cell = group * features_.size() + j;
      if (step == kCounts) {
        ++findings.counts[cell];
        continue;
      }
      const auto key = static_cast<double>(key_of(x));
      for (std::size_t k = cell * each(); k < (cell + 1) * each(); ++k) {
        if (key <= middles[k]) ++findings.counts[k];
      }
    }
  }

  void begin(const std::vector<int64_t>& counts) {
    counts_ = counts;
    for (const int64_t n : counts) {
      for (const double p : options_.probabilities) {
        const auto rank = static_cast<int64_t>(std::ceil(p * static_cast<double>(n) - 1e-9));
        searches_.push_back({.rank = n == 0 ? 0 : std::max<int64_t>(1, rank)});
      }
    }
  }

  void halve(const std::vector<int64_t>& counts) {
    for (std::size_t k = 0; k < searches_.size(); ++k) {
      Search& search = searches_[k];
      const int64_t middle = search.middle();
      if (counts[k] >= search.rank) {
        search.high = middle;
      } else {
        search.low = middle + 1;
      }
    }
    ++bisections_;
  }

  void add_quantile(ResultTable& table, std::size_t cell, std::size_t k, bool hidden) const {
    const std::size_t group = cell / features_.size();
    std::vector<Cell>& row = add_row(table, group);
    row.emplace_back(features_[cell % features_.size()].name);
    if (hidden) {
      row.emplace_back(std::nan(""));
    } else {
      row.emplace_back(counts_[cell]);
    }
    row.emplace_back(options_.probabilities[k]);
    const Search& search = searches_[cell * each() + k];
    const bool none = hidden || search.rank == 0;
    row.emplace_back(none ? std::nan("")
                          : static_cast<double>(number_of(static_cast<uint32_t>(search.low))));
  }

  int64_t step_;
  std::vector<int64_t> counts_;   // [1 + groups, columns] samples with a value
  std::vector<Search> searches_;  // [1 + groups, columns, probabilities]
  int64_t bisections_ = 0;
};

}  // namespace

std::unique_ptr<Analysis> make_quantiles(const AnalysisSetup& setup) {
  return std::make_unique<Quantiles>(setup);
}

}  // namespace hanse
