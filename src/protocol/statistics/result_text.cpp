#include "statistics/result_text.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hanse/base/text.hpp"

namespace hanse {

namespace {

constexpr std::size_t kMostRows = 40;
constexpr std::size_t kMostColumns = 12;

std::string exact(double value) { return std::isnan(value) ? "" : fmt::format("{:.17g}", value); }

struct CsvCell {
  std::string operator()(const std::string& text) const { return csv_field(text); }
  std::string operator()(int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const { return exact(value); }
};

struct ShownCell {
  std::string operator()(const std::string& text) const { return printable(text); }
  std::string operator()(int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const {
    return std::isnan(value) ? "" : fmt::format("{:.5g}", value);
  }
};

nlohmann::ordered_json json_of(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* whole = std::get_if<int64_t>(&cell)) return *whole;
  const double value = std::get<double>(cell);
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

nlohmann::ordered_json columns_of(const ResultTable& table) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    auto& array = json[table.columns[c]] = nlohmann::ordered_json::array();
    for (const auto& row : table.rows) array.push_back(json_of(row[c]));
  }
  return json;
}

// Text stands at the left, numbers at the right.
std::string shown_table(const ResultTable& table) {
  const std::size_t columns = std::min(table.columns.size(), kMostColumns);
  const std::size_t rows = std::min(table.rows.size(), kMostRows);
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns; ++c) {
    std::size_t width = table.columns[c].size();
    for (std::size_t r = 0; r < rows; ++r) {
      width = std::max(width, std::visit(ShownCell(), table.rows[r][c]).size());
    }
    widths.push_back(width);
  }
  const auto is_text = [&](std::size_t c) {
    return rows > 0 && std::holds_alternative<std::string>(table.rows[0][c]);
  };
  std::string text;
  for (std::size_t r = 0; r <= rows; ++r) {
    std::string line;
    for (std::size_t c = 0; c < columns; ++c) {
      const std::string cell =
          r == 0 ? table.columns[c] : std::visit(ShownCell(), table.rows[r - 1][c]);
      line += is_text(c) ? fmt::format("{:<{}}  ", cell, widths[c])
                         : fmt::format("{:>{}}  ", cell, widths[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  if (rows < table.rows.size() || columns < table.columns.size()) {
    text += fmt::format("the whole table is in {}.csv\n", table.name);
  }
  return text;
}

}  // namespace

std::string csv_text(const ResultTable& table) {
  std::string text;
  const auto add_line = [&](std::size_t fields, const auto& field) {
    for (std::size_t c = 0; c < fields; ++c) {
      if (c > 0) text += ',';
      text += field(c);
    }
    text += "\n";
  };
  add_line(table.columns.size(), [&](std::size_t c) { return csv_field(table.columns[c]); });
  for (const auto& row : table.rows) {
    add_line(row.size(), [&](std::size_t c) { return std::visit(CsvCell(), row[c]); });
  }
  return text;
}

std::string json_text(const std::vector<std::string>& names,
                      const std::vector<StatisticsResult>& results) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (std::size_t a = 0; a < results.size(); ++a) {
    auto& own = json[names[a]] = nlohmann::ordered_json::object();
    for (const auto& [name, value] : results[a].facts) own[name] = json_of(value);
    for (const ResultTable& table : results[a].tables) {
      auto columns = columns_of(table);
      if (table.name == names[a]) {
        own.update(columns);
      } else {
        own[table.name.substr(names[a].size() + 1)] = std::move(columns);
      }
    }
    if (!results[a].notes.empty()) own["notes"] = results[a].notes;
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string terminal_text(const std::string& name, const StatisticsResult& result) {
  std::string text = fmt::format("\n{}\n", name);
  std::string facts;
  for (const auto& [fact, value] : result.facts) {
    const std::string shown = std::visit(ShownCell(), value);
    if (!shown.empty()) facts += fmt::format("{}{} {}", facts.empty() ? "" : ", ", fact, shown);
  }
  if (!facts.empty()) text += facts + "\n";
  for (const ResultTable& table : result.tables) {
    if (!table.shown) continue;
    text += '\n';
    text += shown_table(table);
  }
  for (const std::string& note : result.notes) text += note + "\n";
  return text;
}

}  // namespace hanse
