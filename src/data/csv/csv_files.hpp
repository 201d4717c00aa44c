// The files of a table: one, or several that are read as one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "csv/csv_header.hpp"
#include "csv/csv_scanner.hpp"
#include "folder_files.hpp"
#include "hanse/data/dataset.hpp"
#include "input_file.hpp"

namespace hanse {

// A file of the table, read up to its first row.
struct CsvFile {
  CsvFile(std::string file, std::string name, const DataOptions& options);

  std::string path;
  CsvField client;  // whose file it is; empty: the path names nobody
  InputText text;
  CsvScanner rows;
  CsvColumns columns;
};
using CsvFiles = std::vector<std::unique_ptr<CsvFile>>;  // of one table, at least one

// Opens them, and reads their headers. Rows of all have their fields in the order of the first
// header. Throws InvalidArgument: a file has other columns than the first, or no header.
CsvFiles open_files(const PatternFiles& found, const DataOptions& options);

// Says what is odd about the headers: a line for each remark, with the first file that it is about.
void say_remarks(const CsvFiles& files);

}  // namespace hanse
