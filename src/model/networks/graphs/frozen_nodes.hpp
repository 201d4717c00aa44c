// Which nodes of a graph compute what no training changes of a sample.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "networks/graphs/graph_program.hpp"

namespace hanse {

// Numbers for what values are: two values, of one program or of two, have the same number when the
// same operators make them of the same inputs.
class ValueNumbers {
 public:
  // [values] of a program. A write into a value gives what reads it later another number. Inputs
  // have their own numbers, and so must be those of both programs.
  std::vector<int64_t> of(const GraphProgram& program);

  // The operator and the numbers of what it reads.
  const std::string& text(int64_t number) const { return *texts_.at(number); }

 private:
  int64_t number_of(const std::string& text);

  std::map<std::string, int64_t> known_;
  std::map<int64_t, const std::string*> texts_;
  int64_t next_ = int64_t{1} << 32;  // inputs are below
};

// Marks [nodes] those that depend on x and on nothing that `moves` [inputs], draws or is `banned`,
// a number of ValueNumbers, before the first node that reads delta. Memory that nodes write into
// belongs to them only as a whole: with who makes it and all who write. Cost: O(nodes) passes over
// the nodes at most; two or three as a rule.
std::vector<char> frozen_nodes(const GraphProgram& program, int64_t x,
                               const std::vector<char>& moves, const std::vector<int64_t>& numbers,
                               const std::set<int64_t>& banned);

}  // namespace hanse
