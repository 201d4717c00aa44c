// What a trainer's last line of sampling.csv says of a round.
#pragma once

#include <cstdlib>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/protocol/federated.hpp"

namespace hanse {

struct SamplingLine {
  double round, available, estimate, variance, best, regret;  // NaN: an empty field
};

inline SamplingLine last_sampling_line(FederatedTrainer& trainer) {
  std::string last;
  for (const TableLines& table : trainer.take_lines()) {
    if (table.file != "sampling.csv") continue;
    EXPECT_EQ(table.header, "round,available,variance_estimate,variance,best_variance,regret");
    std::istringstream lines(table.lines);
    for (std::string line; std::getline(lines, line);) last = line;
  }
  std::vector<double> fields;
  std::istringstream parts(last + ",");
  for (std::string part; std::getline(parts, part, ',');) {
    fields.push_back(part.empty() ? std::numeric_limits<double>::quiet_NaN()
                                  : std::strtod(part.c_str(), nullptr));
  }
  EXPECT_EQ(fields.size(), 6U) << last;
  fields.resize(6);
  return {fields[0], fields[1], fields[2], fields[3], fields[4], fields[5]};
}

}  // namespace hanse
