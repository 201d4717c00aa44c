// timeline.json: what the ranks did when, in Chrome's trace format, which Perfetto opens.
#pragma once

#include <memory>
#include <string>

#include "hanse/comm/communicator.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/store/atomic_file.hpp"

namespace hanse {

// Each rank has a row: its phases, its clients by name, its messages with their bytes. The ranks
// record while the object lives. What lies on the disk is an array without its last bracket, which
// the viewers take, until close().
class Timeline {
 public:
  // Goes on with the file where it is there. `federation` must outlive the object. Collective.
  Timeline(const std::string& path, const std::string& run_name, Communicator& comm,
           const Federation& federation);
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // Is it time to write? On rank 0: 0.2 s have gone by since the last time.
  bool is_due() const;
  // Writes what the ranks have recorded. Collective.
  void flush();
  // Makes the file valid JSON. Collective.
  void close();

 private:
  Communicator& comm_;
  const Federation& federation_;
  std::unique_ptr<GrowingFile> file_;  // rank 0
  double zero_s_ = 0;                  // of run_seconds() of this rank: time 0 of the file
  double flushed_s_ = 0;
};

}  // namespace hanse
