#include "csv/csv_header.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <unordered_set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"

namespace hanse {

namespace {

using ColumnNames = std::vector<std::string>;

// The fields of a line, roughly: to find their separator.
ColumnNames fields_of(std::string_view line, char separator) {
  ColumnNames fields(1);
  bool in_quotes = false;
  for (const char c : line) {
    if (c == '"') {
      in_quotes = !in_quotes;
    } else if (c == separator && !in_quotes) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  for (std::string& field : fields) field = trim(field);
  return fields;
}

// The separator that makes the label column's name a field; else the comma if there is one, else
// the one that makes the most fields.
char separator_of(std::string_view line, const std::string& label_column) {
  const auto wanted = split_list(label_column);
  char most = ',';
  std::size_t most_fields = fields_of(line, ',').size();
  const bool has_comma = most_fields > 1;
  for (const char separator : {',', ';', '\t', '|'}) {
    const ColumnNames fields = fields_of(line, separator);
    const auto has = [&](const std::string& name) { return std::ranges::count(fields, name) > 0; };
    if (fields.size() > 1 && (has(label_column) || (!wanted.empty() && has(wanted.front())))) {
      return separator;
    }
    if (has_comma || fields.size() <= most_fields) continue;
    most = separator;
    most_fields = fields.size();
  }
  return most;
}

// A number, a missing one, or one that appeared twice and that pandas renamed: 0.2.1.
bool is_number_like(const std::string& field) {
  if (field.empty() || to_number(field) || missing_mark(field) == Missing::kYes) return true;
  const std::size_t dot = field.rfind('.');
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  return dot != field.npos &&
         std::all_of(field.begin() + static_cast<std::ptrdiff_t>(dot) + 1, field.end(), is_digit) &&
         to_number(field.substr(0, dot));
}

// 0, 1, 2, ... or 1, 2, 3, ...: the names that pandas gives to columns without any.
bool counts_up(const ColumnNames& fields) {
  if (fields.size() < 3 || (fields[0] != "0" && fields[0] != "1")) return false;
  const std::size_t first = fields[0] == "0" ? 0 : 1;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i] != std::to_string(first + i)) return false;
  }
  return true;
}

// Before columns are looked for by name: does the line look like a sample?
bool is_mostly_numbers(const ColumnNames& fields) {
  const auto numbers = std::ranges::count_if(fields, is_number_like);
  const auto others = std::ssize(fields) - numbers;  // at most a label and a client
  return others <= std::min<std::ptrdiff_t>(2, numbers) && !counts_up(fields);
}

std::size_t find_column(const CsvScanner& scanner, const ColumnNames& names,
                        const std::string& name, const std::string& option) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  const std::string near = nearest(name, names);
  if (is_mostly_numbers(names)) {
    refuse_sample(scanner.where(), names,
                  fmt::format("; if it has the names, set {}: there is no column '{}'{}", option,
                              name, is_number_like(near) ? "" : fmt::format(", but '{}'", near)));
  }
  std::string hint = fmt::format("set {}; did you mean '{}'? the header has {} columns", option,
                                 near, names.size());
  if (names.size() == 1) hint = "separate the columns by commas: the first line is one field";
  throw InvalidArgument(fmt::format("there is no column '{}'", name), scanner.where(), hint);
}

// Finds one name, which may have a comma, or several.
std::vector<std::size_t> find_columns(const CsvScanner& scanner, const ColumnNames& names,
                                      const std::string& wanted, const std::string& option) {
  if (wanted.empty()) return {};
  if (std::ranges::count(names, wanted) > 0) return {find_column(scanner, names, wanted, option)};
  std::vector<std::size_t> columns;
  for (const std::string& name : split_list(wanted)) {
    columns.push_back(find_column(scanner, names, name, option));
    if (std::ranges::count(columns, columns.back()) == 1) continue;
    throw InvalidArgument(fmt::format("column '{}' is named twice", name), option,
                          "name every column once");
  }
  return columns;
}

// The columns that one option names belong to no other.
void check_uses(const CsvScanner& scanner, const CsvColumns& columns) {
  for (const std::size_t column : columns.dropped) {
    if (!columns.is_label(column) && column != columns.client) continue;
    throw InvalidArgument(fmt::format("column '{}' is left out, and is the label or the client",
                                      columns.names[column]),
                          scanner.where(), "name it in one of the options alone");
  }
  for (const std::size_t column : columns.categories) {
    if (columns.is_feature(column)) continue;
    throw InvalidArgument(fmt::format("column '{}' is no feature", columns.names[column]),
                          scanner.where(), "data.category-columns names columns of features");
  }
}

}  // namespace

void check_column_names(const CsvScanner& scanner, const std::vector<std::string>& names) {
  std::unordered_set<std::string_view> seen;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) {
      throw InvalidArgument(fmt::format("column {} has no name", i + 1), scanner.where(),
                            i > 0 && i + 1 == names.size()
                                ? "does every line end in a separator? take it away"
                                : "write the header line, and no column of row numbers");
    }
    if (!seen.insert(names[i]).second) {
      throw InvalidArgument(fmt::format("column '{}' stands twice", names[i]), scanner.where(),
                            "give every column its own name");
    }
  }
}

namespace {

// Features may have numbers as names if these are years and the label's column is asked for by its
// name, or if they count up; else the line is a sample.
void check_numbers(const CsvScanner& scanner, const DataOptions& options, CsvColumns& columns) {
  for (std::size_t i = 0; i < columns.names.size(); ++i) {
    if (columns.is_feature(i) && !is_number_like(columns.names[i])) return;
  }
  if (counts_up(columns.names)) {
    columns.remarks.push_back(
        fmt::format("the columns are called {} to {}, and the first line is "
                    "no sample",
                    columns.names.front(), columns.names.back()));
    return;
  }
  const std::string& label = columns.names[columns.labels.front()];
  if (!options.label_column.empty() && !is_number_like(label)) {
    columns.perhaps_a_sample = true;
    return;
  }
  refuse_sample(scanner.where(), columns.names,
                options.label_column.empty()
                    ? fmt::format("; if it has the names, set data.label-column = {}", label)
                    : "");
}

void remark_separator(const CsvScanner& scanner, CsvColumns& columns) {
  const char separator = scanner.dialect().separator;
  if (separator == ',') return;
  columns.remarks.push_back(separator == '\t'
                                ? std::string("the columns are separated by tabs")
                                : fmt::format("the columns are separated by '{}'", separator));
}

// If the text is no table, its first line shows it.
void check_first_line(const CsvScanner& scanner) {
  const std::string& first = scanner.fields().front().text;
  const auto refuse = [&](const char* what, const char* hint) {
    throw InvalidArgument(what, scanner.where(), hint);
  };
  if (scanner.fields().size() == 1 && first.empty()) {
    refuse("the first line is blank", "it names the columns: remove the line");
  }
  if (first.starts_with("{") || first.starts_with("[{")) {
    refuse("the file is JSON", "write it as CSV: pandas.read_json and to_csv(index=False)");
  }
  if (first.starts_with("@relation") || first.starts_with("@RELATION")) {
    refuse("the file is ARFF", "write what is below @data, and above it a line of names");
  }
}

}  // namespace

bool CsvColumns::is_label(std::size_t column) const {
  return std::ranges::count(labels, column) > 0;
}

bool CsvColumns::is_feature(std::size_t column) const {
  return !is_label(column) && column != client && std::ranges::count(dropped, column) == 0;
}

int64_t CsvColumns::features() const {
  return std::ssize(names) - std::ssize(labels) - std::ssize(dropped) - (client ? 1 : 0);
}

CsvDialect find_dialect(std::string_view& text, const std::string& label_column) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  text = text.substr(0, text.find_last_not_of(" \t\r\n\x1A") + 1);
  CsvDialect dialect;
  if (text.find('\n') == text.npos && text.find('\r') != text.npos) dialect.line_end = '\r';
  const auto first_line = [&] { return text.substr(0, text.find(dialect.line_end)); };
  if (const auto line = fields_of(first_line(), '\0').front();
      line.size() <= 5 && line.starts_with("sep=")) {  // as workbooks write it
    dialect.separator = line.size() == 5 ? line.back() : '\t';
    dialect.first_line = 2;
    text.remove_prefix(std::min(first_line().size() + 1, text.size()));
  } else {
    dialect.separator = separator_of(first_line(), label_column);
  }
  return dialect;
}

void check_fields(const CsvScanner& scanner, const std::vector<std::string>& names) {
  const auto& fields = scanner.fields();
  if (fields.size() == names.size()) return;
  const std::size_t last = std::min(fields.size(), names.size() - 1);
  if (fields.size() == 1 && fields[0].text.empty()) {
    throw InvalidArgument("the line is blank", scanner.where(), "remove it");
  }
  const bool more = fields.size() > names.size();
  throw InvalidArgument(
      fmt::format("the row has {} fields, the header {}", fields.size(), names.size()),
      fmt::format("{}, column '{}'", scanner.where(), names[last]),
      more ? "quote fields that hold a comma; numbers have a decimal point, and no comma"
           : "is the row cut? fill it in or remove it");
}

void refuse_sample(const std::string& where, const ColumnNames& fields, const std::string& more) {
  const std::size_t features = fields.size() - 1;
  std::string header = "x1";
  for (std::size_t i = 2; i <= std::min<std::size_t>(features, 4); ++i) {
    header += i == 4 && features > 4 ? fmt::format(",...,x{}", features) : fmt::format(",x{}", i);
  }
  const ColumnNames some(fields.begin(),
                         fields.begin() + std::min<std::ptrdiff_t>(features + 1, 3));
  throw InvalidArgument(
      fmt::format("the first line names the columns, and '{}{}' looks like a sample",
                  fmt::join(some, ","), some.size() < fields.size() ? ",..." : ""),
      where, fmt::format("put a line of names above it, such as {},label{}", header, more));
}

std::vector<std::string> read_column_names(CsvScanner& scanner) {
  if (!scanner.next()) {
    throw InvalidArgument("the file is empty", scanner.where(), "its first line names the columns");
  }
  check_first_line(scanner);
  ColumnNames names;
  for (const CsvField& field : scanner.fields()) {
    require_utf8(field.text, scanner.where());
    names.push_back(field.text);
  }
  return names;
}

CsvColumns read_header(CsvScanner& scanner, const DataOptions& options) {
  CsvColumns columns;
  columns.names = read_column_names(scanner);
  const auto find = [&](const std::string& wanted, const std::string& option) {
    return find_columns(scanner, columns.names, wanted, option);
  };
  columns.labels = find(options.label_column, "data.label-column");
  if (columns.labels.empty()) columns.labels = {columns.names.size() - 1};
  columns.dropped = find(options.drop_columns, "data.drop-columns");
  columns.categories = find(options.category_columns, "data.category-columns");
  if (!options.client_column.empty()) {
    columns.client =
        find_column(scanner, columns.names, options.client_column, "data.client-column");
  }
  if (columns.client && columns.is_label(*columns.client)) {
    throw InvalidArgument(
        fmt::format("column '{}' is both label and client", columns.names[*columns.client]),
        scanner.where(), "set data.label-column and data.client-column to different columns");
  }
  check_uses(scanner, columns);
  if (columns.features() < 1) {
    throw InvalidArgument("there is no feature column", scanner.where(),
                          columns.names.size() > 1
                              ? "a row has at least one number beside label and client"
                              : "separate the columns by commas: the first line is one field");
  }
  check_numbers(scanner, options, columns);
  check_column_names(scanner, columns.names);
  remark_separator(scanner, columns);
  return columns;
}

}  // namespace hanse
