// Every client's numbers at every evaluation, as one HDF5 file of a run directory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hanse/evaluation/evaluation.hpp"

namespace hanse {

// history.h5 has `round` int64 [E], ascending, an entry for each evaluation, -1 in free rows, and
// for each column of clients.csv behind `samples` a float32 dataset [E, clients], NaN for clients
// that were not evaluated. An evaluation writes its row into reserved space, and then its round; a
// full file is replaced by one of twice the rows. So a run that is killed leaves a whole file, with
// which a resume goes on.
class ClientHistory {
 public:
  static constexpr const char* kFile = "history.h5";

  // For `clients` and data of so many classes. An existing file keeps its evaluations until round
  // `last`; -1: none. Throws IoError, as the other methods do.
  ClientHistory(std::string path, int64_t last, int64_t clients, int64_t classes,
                const AskedMetrics& asked);

  // REQUIRES: the rounds rise. Cost: the file is opened, and one row of each column is written.
  void append(int64_t round, const EvaluationTable& found);
  // Brings the file to the disk, so that it outlives the machine's end.
  void sync() const;

 private:
  void make_room(std::size_t rows);

  std::string path_;
  std::vector<std::string> columns_;
  std::vector<int64_t> rounds_;  // [E]
  int64_t clients_;
  int64_t classes_;
  AskedMetrics asked_;
  std::size_t used_ = 0;  // rows
};

}  // namespace hanse
