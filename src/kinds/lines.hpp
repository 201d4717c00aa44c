// Lines of small CSV files that a job names.
#pragma once

#include <fstream>
#include <string>

#include <fmt/format.h>

#include "hanse/base/error.hpp"

namespace hanse {

// Calls take(line, number, "PATH:LINE") for each line that is neither empty nor a comment ('#').
// Throws InvalidArgument when the file cannot be read.
template <class Take>
void each_line(const std::string& path, const char* what, const char* hint, Take take) {
  std::ifstream file(path);
  if (!file) throw InvalidArgument(fmt::format("cannot read the {}", what), path, hint);
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line.front() == '#') continue;
    take(line, number, fmt::format("{}:{}", path, number));
  }
}

}  // namespace hanse
