#include "csv/csv_files.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "client_source.hpp"
#include "file_signature.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/log.hpp"
#include "hanse/base/options.hpp"

namespace hanse {

namespace {

// Throws InvalidArgument: a column of one of the files is missing in the other.
void require_columns(const CsvFile& has, const CsvFile& lacks, const CsvFile& told) {
  for (const std::string& name : has.columns.names) {
    const auto& others = lacks.columns.names;
    if (std::ranges::count(others, name) > 0) continue;
    throw InvalidArgument(
        fmt::format("column '{}' of {} is not in {}", name, has.path, lacks.path), told.path,
        fmt::format("the files of a table have the same columns, in any order: is it '{}'?",
                    nearest(name, others)));
  }
}

// Columns are matched by their names: each row gets the order of the first file.
void arrange_as(const CsvFile& first, CsvFile& file) {
  const auto &names = first.columns.names, &own = file.columns.names;
  if (own == names) return;
  require_columns(first, file, file);
  require_columns(file, first, file);
  std::vector<std::size_t> order;
  for (const std::string& name : names) {
    order.push_back(static_cast<std::size_t>(std::ranges::find(own, name) - own.begin()));
  }
  file.rows.arrange(std::move(order));
  file.columns.remarks.push_back("the columns stand in another order than in " + first.path +
                                 ", and are matched by their names");
}

}  // namespace

CsvFile::CsvFile(std::string file, std::string name, const DataOptions& options)
    : path(std::move(file)), client{std::move(name), true}, text(path), rows(path, {}, {}) {
  require_text(text.view(), path, "CSV");
  std::string_view content = text.view();
  const CsvDialect dialect = find_dialect(content, options.label_column);
  rows = CsvScanner(path, content, dialect);
  columns = read_header(rows, options);
}

CsvFiles open_files(const PatternFiles& found, const DataOptions& options) {
  CsvFiles files;
  for (const auto& [file, name] : found.files) {
    files.push_back(std::make_unique<CsvFile>(file, name, options));
    arrange_as(*files.front(), *files.back());
  }
  return files;
}

void say_remarks(const CsvFiles& files) {
  std::vector<std::string> remarks;
  std::map<std::string, std::vector<const CsvFile*>> about;
  for (const auto& file : files) {
    for (const std::string& remark : file->columns.remarks) {
      if (about[remark].empty()) remarks.push_back(remark);
      about[remark].push_back(file.get());
    }
  }
  for (const std::string& remark : remarks) {
    const auto& own = about[remark];
    const auto others = std::ssize(own) - 1;
    notice(fmt::format("{}{}: {}", own.front()->path,
                       others == 0 ? "" : " and " + counted(others, "other file", "other files"),
                       remark));
  }
}

}  // namespace hanse
