// Principal components, of the covariances that moments find.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "decompositions.hpp"
#include "features.hpp"
#include "hanse/base/choice.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

namespace {

class Components final : public Analysis {
 public:
  explicit Components(const AnalysisSetup& setup)
      : options_(setup.options), moments_(make_moments(of_all_samples(setup))) {}

  std::optional<Question> question() override { return moments_->question(); }
  SampleFindings open(const Question& question) const override { return moments_->open(question); }
  void look(const Question& question, const Samples& samples,
            SampleFindings& findings) const override {
    moments_->look(question, samples, findings);
  }
  void hear(SampleFindings findings) override {
    moments_->hear(std::move(findings));
    if (moments_->question()) return;
    const StatisticsResult moments = moments_->result();
    complete_ = std::get<int64_t>(moments.facts.front().second);
    for (const ResultTable& table : moments.tables) {
      if (table.name == "moments-" + name_of(options_.scale)) decompose(table);
    }
  }

  StatisticsResult result() const override {
    const std::size_t told = std::min(values_.size(), to_index(options_.components));
    ResultTable table{"pca", {"component", "eigenvalue", "share", "cumulative_share"}};
    ResultTable vectors{"pca-components", {"component"}};
    vectors.columns.insert(vectors.columns.end(), names_.begin(), names_.end());
    double all = 0, before = 0;
    for (const double value : values_) all += value;
    for (std::size_t k = 0; k < told; ++k) {
      before += values_[k];
      table.rows.push_back(
          {static_cast<int64_t>(k + 1), values_[k], values_[k] / all, before / all});
      std::vector<Cell>& row = vectors.rows.emplace_back();
      row.emplace_back(static_cast<int64_t>(k + 1));
      for (const double entry : vectors_[k]) row.emplace_back(entry);
    }
    return {.facts = {{"n", complete_}, {"scale", name_of(options_.scale)}},
            .tables = {std::move(table), std::move(vectors)}};
  }

 private:
  void decompose(const ResultTable& table) {
    const std::size_t p = table.rows.size();
    names_.assign(table.columns.begin() + 1, table.columns.end());
    ByColumns matrix(p, p);
    for (std::size_t j = 0; j < p; ++j) {
      for (std::size_t k = 0; k < p; ++k) {
        const double entry = std::get<double>(table.rows[j][k + 1]);
        if (std::isnan(entry)) {
          throw InvalidArgument(complete_ < 2
                                    ? "fewer than two samples have a value in every column"
                                    : fmt::format("column '{}' is constant", names_[j]),
                                "statistics.columns", "leave it out");
        }
        matrix(static_cast<Eigen::Index>(j), static_cast<Eigen::Index>(k)) = entry;
      }
    }
    const Spectrum spectrum = spectrum_of(matrix);
    for (std::size_t k = p; k-- > 0;) {  // values ascend there
      const auto column = static_cast<Eigen::Index>(k);
      values_.push_back(std::max(0.0, spectrum.values[column]));
      std::vector<double> vector;
      for (std::size_t j = 0; j < p; ++j) {
        vector.push_back(spectrum.vectors(static_cast<Eigen::Index>(j), column));
      }
      // The entry that is largest, the first of equal ones, is positive.
      const auto most =
          std::ranges::max_element(vector, {}, [](double entry) { return std::abs(entry); });
      if (*most < 0) {
        for (double& entry : vector) entry = -entry;
      }
      vectors_.push_back(std::move(vector));
    }
  }

  StatisticsOptions options_;
  std::unique_ptr<Analysis> moments_;
  int64_t complete_ = 0;
  std::vector<std::string> names_;
  std::vector<double> values_;                // falling
  std::vector<std::vector<double>> vectors_;  // of each value
};

}  // namespace

std::unique_ptr<Analysis> make_pca(const AnalysisSetup& setup) {
  return std::make_unique<Components>(setup);
}

}  // namespace hanse
