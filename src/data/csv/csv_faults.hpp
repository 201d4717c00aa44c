// Faults of a table, found one after another and told together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hanse/base/error.hpp"

namespace hanse {

class CsvFaults {
 public:
  // Runs `work`, and keeps the InvalidArgument that it throws, but for the encoding, which is one
  // fault of the file. Did it end well?
  template <class F>
  bool attempt(F work) {
    try {
      work();
      return true;
    } catch (const InvalidArgument& fault) {
      add(fault);
      return false;
    }
  }

  // Throws InvalidArgument if there are faults: the only one as it is; of several the first one,
  // behind a notice for each of the first twenty.
  void refuse() const;

 private:
  void add(const InvalidArgument& fault);

  std::vector<std::string> first_;  // in the order of the lines
  int64_t count_ = 0;
  bool is_encoded_ = false;  // otherwise than in UTF-8
};

}  // namespace hanse
