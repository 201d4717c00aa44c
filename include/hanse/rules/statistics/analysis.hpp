// A statistic as questions and answers: rank 0 asks, every rank looks once at its samples, their
// findings are added exactly, and rank 0 hears the sum, until it has the result. So a result does
// not depend on how samples are divided among clients and ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "hanse/rules/statistics/options.hpp"
#include "hanse/rules/statistics/tally.hpp"

namespace hanse {

// A column of the table that all clients' samples are rows of.
struct TableColumn {
  std::string name;
  std::vector<std::string> levels;  // of a category, whose values are numbers of levels; else empty

  bool is_category() const { return !levels.empty(); }
};

// What all ranks know of the table.
struct TableFacts {
  std::vector<TableColumn> columns;  // features, and behind them the label's values
  int64_t labels = 0;                // columns of the label
  std::vector<std::string> clients;  // [M] names; where there are none, their numbers

  std::size_t width() const { return columns.size(); }
  // Throws InvalidArgument that names the key and the columns that there are. "label" is the
  // label's column, whatever its name, unless a feature has that name.
  std::size_t find(std::string_view name, const std::string& key) const;
};

// Some samples of one client, one after another.
struct Samples {
  std::span<const float> values;    // [size, columns]; NaN: missing
  std::span<const int64_t> places;  // [size] numbers of the samples in their source
  int64_t client = 0;
  std::size_t width = 0;

  std::size_t size() const { return places.size(); }
  const float* row(std::size_t i) const { return values.data() + i * width; }
};

// A set of numbers.
class DistinctValues {
 public:
  void add(double value);
  // In ascending order.
  const std::vector<double>& sorted();

 private:
  void compact();

  std::vector<double> values_;
  std::size_t compacted_ = 0;  // the first so many are sorted and distinct
};

// What a rank finds in one look at its samples. Parts of ranks are added: sums and counts, the
// larger of `largest`, and the union of `distinct`.
struct Findings {
  Tally sums;
  std::vector<int64_t> counts;
  std::vector<double> largest;
  std::vector<DistinctValues> distinct;

  // `largest` of so many numbers before the first sample.
  static std::vector<double> none(std::size_t count) {
    return std::vector<double>(count, -std::numeric_limits<double>::infinity());
  }
};

// What rank 0 tells the others before a look: a step of the analysis, and its numbers.
struct Question {
  int64_t step = 0;
  std::vector<double> numbers = {};
};

// A field of a table: text, a whole number, or a number; NaN: none.
using Cell = std::variant<std::string, int64_t, double>;

struct ResultTable {
  std::string name;  // "moments": the file moments.csv
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows = {};
  bool shown = true;  // on the terminal, too
};

struct StatisticsResult {
  std::vector<std::pair<std::string, Cell>> facts = {};  // "n", "deviance", ...
  std::vector<ResultTable> tables = {};                  // the first one has the statistic's name
  std::vector<std::string> notes = {};                   // lines for the user
};

// Objects are made alike on all ranks. Rank 0 calls question(), hear() and result(); the others
// call open() and look() alone, with rank 0's questions.
class Analysis {
 public:
  virtual ~Analysis() = default;

  // What is asked next; nothing: the result is there.
  virtual std::optional<Question> question() = 0;
  // Findings of no sample.
  virtual Findings open(const Question& question) const = 0;
  // Adds those of the samples. Each term is a function of its sample and of the question alone.
  virtual void look(const Question& question, const Samples& samples, Findings& findings) const = 0;
  // Takes the answer, of all samples. Throws InvalidArgument: the table has no such statistic.
  virtual void hear(Findings findings) = 0;
  virtual StatisticsResult result() const = 0;
  // Of an analysis with one look, whose answer is counts: the square of how far a sample moves
  // them; 0: an answer without noise tells more.
  virtual int64_t squared_reach() const { return 0; }
  // What the last answer has made of the statistic's target: a deviance, a log-likelihood; NaN.
  virtual double value() const { return std::numeric_limits<double>::quiet_NaN(); }
};

// The makers of src/kinds/statistics.cpp. `seed` is that of starts. All throw InvalidArgument:
// unknown columns.
struct AnalysisSetup {
  StatisticsOptions options;
  TableFacts table;
  uint64_t seed = 0;
};
using AnalysisMaker = std::unique_ptr<Analysis> (*)(const AnalysisSetup& setup);
std::unique_ptr<Analysis> make_moments(const AnalysisSetup& setup);
std::unique_ptr<Analysis> make_quantiles(const AnalysisSetup& setup);
std::unique_ptr<Analysis> make_histogram(const AnalysisSetup& setup);
std::unique_ptr<Analysis> make_crosstab(const AnalysisSetup& setup);
std::unique_ptr<Analysis> make_glm(const AnalysisSetup& setup);
std::unique_ptr<Analysis> make_pca(const AnalysisSetup& setup);
std::unique_ptr<Analysis> make_kmeans(const AnalysisSetup& setup);
std::unique_ptr<Analysis> make_gmm(const AnalysisSetup& setup);
std::unique_ptr<Analysis> make_kaplan_meier(const AnalysisSetup& setup);
std::unique_ptr<Analysis> make_log_rank(const AnalysisSetup& setup);
std::unique_ptr<Analysis> make_cox(const AnalysisSetup& setup);
// Private for each sample, with noise on their answers.
std::unique_ptr<Analysis> make_private_moments(const AnalysisSetup& setup);
std::unique_ptr<Analysis> make_private_quantiles(const AnalysisSetup& setup);
std::unique_ptr<Analysis> make_private_histogram(const AnalysisSetup& setup);
std::unique_ptr<Analysis> make_private_crosstab(const AnalysisSetup& setup);

}  // namespace hanse
