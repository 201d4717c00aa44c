// Results of statistics as files, and as tables for a terminal.
#pragma once

#include <string>
#include <vector>

#include "hanse/rules/statistics/analysis.hpp"

namespace hanse {

// A header line, and a line a row; numbers with 17 significant digits, those that are not there
// empty.
std::string csv_text(const ResultTable& table);

// {"moments": {its facts, and an array for each column of its first table; the others by name}}.
std::string json_text(const std::vector<std::string>& names,
                      const std::vector<StatisticsResult>& results);

// The statistic's facts and its first tables, cut where they are long.
std::string terminal_text(const std::string& name, const StatisticsResult& result);

}  // namespace hanse
