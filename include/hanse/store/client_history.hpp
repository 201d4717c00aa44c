// Every client's numbers at every evaluation, as one HDF5 file of a run directory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hanse/evaluation/evaluation.hpp"

namespace hanse {

// history.h5: `round` int64 [E], of each evaluation, ascending, -1 in rows that are still free;
// and for each column of clients.csv behind `samples` a float32 dataset [E, clients], NaN for
// clients that the evaluation is not of. An evaluation writes its row into space that is there, and
// then its round; a full file is replaced by one of twice the rows. So a run that is killed leaves
// a whole file, which a resume goes on with.
class ClientHistory {
 public:
  static constexpr const char* kFile = "history.h5";

  // Of `clients` and data of so many classes. Of a file that is there the evaluations until round
  // `last` stay; -1: none. Throws IoError, also below.
  ClientHistory(std::string path, int64_t last, int64_t clients, int64_t classes,
                const AskedMetrics& asked);

  // REQUIRES: the rounds rise. Cost: the file is opened, and one row of each column is written.
  void append(int64_t round, std::span<const ClientEvaluation> found);
  // To the disk, so that it outlives the machine's end.
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
