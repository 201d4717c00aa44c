#include "coefficients.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/index.hpp"

namespace hanse {

namespace {

// The coefficients of one output, or the difference of two, with the bias behind them.
struct Column {
  std::string title;
  std::vector<double> values;
};

class Table {
 public:
  Table(const FeatureRecord& record, std::span<const float> weight, std::span<const float> bias)
      : record_(record),
        weight_(weight),
        bias_(bias),
        is_regression_(record.labels.scored_classes() == 0),
        has_scales_(!record.preparations.front().scales.empty()),
        has_unit_(!has_scales_ || !record.is_by_client()) {}

  std::string text() const {
    std::string text = heading();
    for (const Column& column : columns()) text += of(column);
    return text;
  }

 private:
  std::size_t width() const { return record_.values.size(); }

  double at(std::size_t output, std::size_t value) const {
    return static_cast<double>(value == width() ? bias_[output]
                                                : weight_[output * width() + value]);
  }

  // The coefficients of `output`, less those of `other` where it is one.
  Column column(std::string title, std::size_t output, std::ptrdiff_t other = -1) const {
    Column column{.title = std::move(title), .values = {}};
    for (std::size_t i = 0; i <= width(); ++i) {
      column.values.push_back(at(output, i) - (other < 0 ? 0 : at(to_index(other), i)));
    }
    return column;
  }

  std::vector<Column> columns() const {
    const std::string first = output_name(record_, 0);
    std::vector<Column> columns;
    if (record_.labels.classes == 2 && bias_.size() == 1) {
      return {column(fmt::format("{} against {}", output_name(record_, 1), first), 0)};
    }
    const bool against_first = record_.labels.classes > 0;
    for (std::size_t k = against_first ? 1 : 0; k < bias_.size(); ++k) {
      const std::string name = output_name(record_, static_cast<int64_t>(k));
      columns.push_back(against_first ? column(fmt::format("{} against {}", name, first), k, 0)
                                      : column(name, k));
    }
    return columns;
  }

  std::string heading() const {
    std::string text = is_regression_ ? "coefficients: slopes of the value to predict"
                                      : "coefficients: logarithms of odds, and odds ratios";
    if (record_.labels.classes > 2) text += "; each class against the first";
    if (!has_scales_) text += "; inputs are in the table's units";
    if (!has_unit_) text += "; each client has a deviation of its own, and so a unit";
    return text + "\n";
  }

  std::string effect(double coefficient) const {
    return fmt::format("{:.6g}", is_regression_ ? coefficient : std::exp(coefficient));
  }

  std::string of(const Column& column) const {
    std::size_t longest = std::string("intercept").size();
    for (std::size_t i = 0; i < width(); ++i) {
      longest = std::max(longest, value_name(record_, static_cast<int64_t>(i)).size());
    }
    std::string text = fmt::format("  {}\n", column.title);
    text += fmt::format("    {:<{}}  {:>12}{}{}\n", "input", longest, "coefficient",
                        has_unit_ ? fmt::format("  {:>12}", "per unit") : "",
                        has_scales_ ? fmt::format("  {:>13}", "per deviation") : "");
    for (std::size_t i = 0; i <= width(); ++i) {
      const double value = column.values[i];
      text += fmt::format("    {:<{}}  {:>12.6g}",
                          i == width() ? "intercept" : value_name(record_, static_cast<int64_t>(i)),
                          longest, value);
      if (i < width() && has_unit_) text += fmt::format("  {:>12}", effect(value / unit(i)));
      if (i < width() && has_scales_) text += fmt::format("  {:>13}", effect(value));
      text += "\n";
    }
    return text;
  }

  // The model's inputs in one unit of the table.
  double unit(std::size_t i) const {
    return has_scales_ ? record_.preparations.front().scales[i].deviation : 1;
  }

  const FeatureRecord& record_;
  std::span<const float> weight_, bias_;
  bool is_regression_, has_scales_, has_unit_;
};

}  // namespace

std::string coefficients_text(const FeatureRecord& record, std::span<const float> weight,
                              std::span<const float> bias) {
  return Table(record, weight, bias).text();
}

}  // namespace hanse
