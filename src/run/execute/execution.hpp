// One rank's part of a run, whatever the protocol.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hanse/base/error.hpp"

namespace hanse {

class Communicator;
struct KeyedJob;

// Where a resumed run continues.
struct ResumePoint {
  std::string file;    // checkpoint
  std::string folder;  // of the run so far
  int64_t round = 0;   // rank 0
};

struct RunEnd {
  ExitStatus status = ExitStatus::kDone;  // or kStopped
  int64_t rounds = 0;                     // that are completed
  std::string table = {};                 // rank 0: the numbers a person looks for first, if done
};

// Makes rounds, evaluations, checkpoints and results, to the run's end or to a request to stop.
// `start_s` is when the process began; the job's federation.clients becomes the data's number.
// `repeats`: the folder of the repeats that the run is one of; empty: it is alone. Collective.
// Throws AgreedError.
RunEnd execute(KeyedJob& job, Communicator& comm, double start_s,
               const std::optional<ResumePoint>& resume, const std::string& repeats);

}  // namespace hanse
