#include "csv/csv_feature.hpp"

#include <cmath>
#include <limits>
#include <regex>

#include <fmt/format.h>

#include "csv/csv_numbers.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"

namespace hanse {

namespace {

constexpr int64_t kMostLevels = 1000;
constexpr int64_t kFewLevels = 20;  // below, texts that are all different may well be categories
constexpr std::size_t kLongestDate = 40;  // bytes
constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
constexpr const char* kDateHint =
    "write it as a number, such as the days since a fixed one, or leave the column out: "
    "data.drop-columns";

}  // namespace

std::optional<double> number_or_truth(std::string_view text) {
  if (text.size() == 4 && lower_case(text) == "true") return 1;
  if (text.size() == 5 && lower_case(text) == "false") return 0;
  return to_number(text);
}

bool is_date(std::string_view text) {
  static const std::regex date(
      R"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ,].*)?|)"
      R"(\d{1,2}[-/. ](\d{1,2}|[A-Za-z]{3,9})[-/. ]\d{2,4}([T ,].*)?|)"
      R"([A-Za-z]{3,9}\.? \d{1,2},? \d{4}|\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?)");
  return text.size() <= kLongestDate && std::regex_match(text.begin(), text.end(), date);
}

CsvFeature::CsvFeature(const CsvScanner& scanner, const DataOptions& options, std::string name,
                       bool is_category)
    : scanner_(scanner),
      options_(options),
      name_(std::move(name)),
      is_category_(is_category),
      is_named_(is_category),
      levels_(scanner, NamesOf::kCategories, fmt::format("column '{}'", name_)) {}

double CsvFeature::read(const CsvField& field, int64_t sample) {
  const Missing mark = field.text.empty() ? Missing::kYes : missing_mark(field.text);
  if (is_category_) {
    const bool is_level = mark != Missing::kYes || (field.quoted && !field.text.empty());
    return is_level ? level(field) : missing(field);
  }
  if (const auto number = number_or_truth(field.text); number && !std::isnan(*number)) {
    return *number;
  }
  const int64_t numbers = sample - others_++;  // above it
  if (mark == Missing::kNo) return text(field, numbers);
  const bool decided = options_.categories == Categories::kRefuse || numbers > 0;
  if (mark == Missing::kYes || decided) return missing(field);
  perhaps_.push_back({sample, field, where()});
  return kNothing;
}

double CsvFeature::missing(const CsvField& field) {
  if (options_.missing == MissingValues::kRefuse) refuse_missing(field, where());
  ++missing_;
  return kNothing;
}

void CsvFeature::refuse_missing(const CsvField& field, const std::string& where) const {
  const std::string what = field.text.empty() ? "the cell is empty"
                           : is_category_ ? fmt::format("the category is missing: '{}'", field.text)
                                          : fmt::format("'{}' is not a number", field.text);
  throw InvalidArgument(what, where,
                        "fill it in or remove the row; data.missing = mean, for example, fills it");
}

double CsvFeature::level(const CsvField& field) {
  const auto whole = whole_number(field.text);
  // Without a level, the first text was a fault of its own.
  if (!is_named_ && !levels_.all().empty() && to_number(field.text)) {
    if (numbers_++ == 0) number_ = {field.text, &scanner_.file(), scanner_.line()};
    return kNothing;  // finish() refuses the mixture
  }
  ++texts_;
  const auto [number, is_new] = levels_.number({whole.value_or(field.text), field.quoted});
  if (is_new && number == kMostLevels) {
    throw InvalidArgument(
        fmt::format("more than {} categories", kMostLevels), where(),
        fmt::format("data.drop-columns = {} leaves out what is of one sample alone", name_));
  }
  return static_cast<double>(number);
}

double CsvFeature::text(const CsvField& field, int64_t numbers) {
  const bool is_refused = options_.categories == Categories::kRefuse;
  const std::string what = fmt::format("'{}' is not a number", field.text);
  const bool is_misfit = is_date(field.text) || (is_refused && numbers == 0) ||
                         (numbers > 0 && written_number(field.text));
  if (is_misfit && std::exchange(misfits_, true)) return kNothing;
  if (is_date(field.text)) throw InvalidArgument(what + " but a date", where(), kDateHint);
  if (is_refused) {
    std::string hint = number_hint(field.text);
    if (meant_number(field.text).empty() && !written_number(field.text)) {
      hint += "; data.categories = one-hot takes text, too";
    }
    throw InvalidArgument(what, where(), hint);
  }
  if (numbers > 0) {
    throw InvalidArgument(
        fmt::format("{}, and {} above it {}", what, numbers, numbers == 1 ? "is" : "are"), where(),
        ways_on(written_number(field.text) ? number_hint(field.text) : "correct it"));
  }
  is_category_ = true;
  for (const Perhaps& mark : perhaps_) {
    patches_.emplace_back(mark.sample, static_cast<int64_t>(level(mark.field)));
  }
  perhaps_.clear();
  return level(field);
}

std::string CsvFeature::ways_on(const std::string& hint) const {
  return fmt::format("{}; data.category-columns = {} makes all of them categories", hint, name_);
}

// Whatever stands first, the fewer ones are blamed.
void CsvFeature::refuse_mixture() const {
  if (numbers_ == 0) return;
  const CsvName& text = levels_.all().front();
  if (numbers_ <= texts_) {
    throw InvalidArgument(
        fmt::format("'{}' is a number, and '{}' above is none", number_.text, text.text),
        levels_.where(number_),
        fmt::format("data.category-columns = {} makes both categories", name_));
  }
  throw InvalidArgument(fmt::format("'{}' is not a number, and {} of the column {}", text.text,
                                    numbers_, numbers_ == 1 ? "is" : "are"),
                        levels_.where(text),
                        ways_on(written_number(text.text) ? number_hint(text.text) : "correct it"));
}

// "<50" and ">=50" may be categories: one number at least stands alone, or with a unit, which is
// the same in all.
void CsvFeature::refuse_numbers() const {
  std::string unit;
  const CsvName* first = nullptr;
  for (const CsvName& level : levels_.all()) {
    const auto number = written_number(level.text);
    if (!number || (!number->unit.empty() && !unit.empty() && number->unit != unit)) return;
    if (!number->unit.empty()) unit = number->unit;
    if (number->comparison.empty() && !first) first = &level;
  }
  if (!first) return;
  throw InvalidArgument(
      fmt::format("'{}' is a number in another spelling, and so are all {} different texts of the "
                  "column",
                  first->text, levels_.all().size()),
      levels_.where(*first), ways_on(number_hint(first->text)));
}

void CsvFeature::refuse_names(int64_t samples) const {
  const int64_t levels = std::ssize(levels_.all()), known = samples - missing_;
  if (levels < kFewLevels || 2 * levels <= known) return;
  throw InvalidArgument(
      fmt::format("{} different texts in {} rows, '{}' the first, name rows and are no categories",
                  levels, known, levels_.all().front().text),
      levels_.where(levels_.all().front()),
      fmt::format(
          "data.drop-columns = {0} leaves the column out; data.category-columns = {0} makes "
          "categories of them all the same",
          name_));
}

std::optional<OpenColumn> CsvFeature::finish(int64_t samples, std::vector<int64_t>& places) {
  if (!perhaps_.empty() && options_.missing == MissingValues::kRefuse) {
    refuse_missing(perhaps_.front().field, perhaps_.front().where);
  }
  missing_ += std::ssize(perhaps_);
  if (!is_category_ && missing_ == 0) return std::nullopt;
  if (is_category_ && !is_named_ && !levels_.all().empty() &&
      std::ssize(levels_.all()) <= kMostLevels) {
    refuse_mixture();
    refuse_numbers();
    refuse_names(samples);
  }
  levels_.say_what_is_odd();
  SortedNames sorted = sorted_names(levels_, false);
  places = std::move(sorted.places);
  return OpenColumn{.name = name_, .levels = std::move(sorted.names), .missing = missing_};
}

std::string CsvFeature::where() const {
  return fmt::format("{}, column '{}'", scanner_.where(), name_);
}

}  // namespace hanse
