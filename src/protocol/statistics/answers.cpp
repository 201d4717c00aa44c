#include "statistics/answers.hpp"

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

void keep_answer(Findings& answer, std::vector<int64_t>& whole, std::vector<double>& numbers) {
  const std::vector<int64_t> limbs = answer.sums.limbs();
  whole.insert(whole.end(), limbs.begin(), limbs.end());
  whole.insert(whole.end(), answer.counts.begin(), answer.counts.end());
  numbers.insert(numbers.end(), answer.largest.begin(), answer.largest.end());
  for (DistinctValues& distinct : answer.distinct) {
    const std::vector<double>& values = distinct.sorted();
    whole.push_back(std::ssize(values));
    numbers.insert(numbers.end(), values.begin(), values.end());
  }
}

int64_t Answers::next_whole() {
  if (at_whole_ == whole_.size()) throw IoError("the checkpoint's answers are too few");
  return whole_[at_whole_++];
}

double Answers::next_number() {
  if (at_number_ == numbers_.size()) throw IoError("the checkpoint's answers are too few");
  return numbers_[at_number_++];
}

Findings Answers::next(Findings empty) {
  std::vector<int64_t> limbs = empty.sums.limbs();
  for (int64_t& limb : limbs) limb = next_whole();
  empty.sums.set_limbs(limbs);
  for (int64_t& count : empty.counts) count = next_whole();
  for (double& largest : empty.largest) largest = next_number();
  for (DistinctValues& distinct : empty.distinct) {
    for (int64_t left = next_whole(); left > 0; --left) distinct.add(next_number());
  }
  return empty;
}

}  // namespace hanse
