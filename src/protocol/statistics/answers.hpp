// Answers to the questions of statistics, as two lists of numbers that a checkpoint holds.
#pragma once

#include <cstdint>
#include <vector>

#include "hanse/rules/statistics/analysis.hpp"

namespace hanse {

// Adds an answer to the lists.
void keep_answer(Findings& answer, std::vector<int64_t>& whole, std::vector<double>& numbers);

// The answers in such lists, one after another.
class Answers {
 public:
  Answers(std::vector<int64_t> whole, std::vector<double> numbers)
      : whole_(std::move(whole)), numbers_(std::move(numbers)) {}

  // The next one, in findings of no sample for its question. Throws IoError: there is none.
  Findings next(Findings empty);

 private:
  int64_t next_whole();
  double next_number();

  std::vector<int64_t> whole_;
  std::vector<double> numbers_;
  std::size_t at_whole_ = 0, at_number_ = 0;
};

}  // namespace hanse
