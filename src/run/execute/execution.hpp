// One rank's part of a run, whatever the protocol, and what ends a run behind its start.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "hanse/base/error.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/data/federation.hpp"

namespace hanse {

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
  std::string way_on = {};                // of one that has left a round: how to go on
};

// Makes rounds, evaluations, checkpoints and results, to the run's end or to a request to stop.
// `start_s` is when the process began; the job's federation.clients becomes the data's number.
// `repeats`: the folder of the repeats that the run is one of; empty: it is alone. Collective.
// Throws AgreedError.
RunEnd execute(KeyedJob& job, Communicator& comm, double start_s,
               const std::optional<ResumePoint>& resume, const std::string& repeats);

// Throws InvalidArgument when the folder is no run's.
void check_run_directory(const std::string& folder);

// An error in a client's training names the client as the data do. What a rule refuses now was not
// found before the first round: the run has failed.
std::exception_ptr named_failure(std::exception_ptr failure, const Federation& federation);

// How a user goes on with what an ended run has left in its folder: from the checkpoint of a round,
// or (-1) from the start.
std::string way_on_text(const std::string& folder, int64_t round);
// How to go on after an error, and the file without which that is not possible.
struct WayOn {
  std::string text, file;  // empty: nothing is there to go on with

  std::string hint() const;  // the text, or that the file is gone
};
// That of a run, or of the folder of the repeats that it is one of, where that is not empty.
WayOn way_on_from(const std::string& folder, int64_t round, const std::string& repeats);

// A message with one more hint; an empty one adds nothing.
std::string with_hint(const std::string& text, const std::string& hint);

// An error of files gets the hint; others would come again.
std::exception_ptr with_way_on(std::exception_ptr failure, const std::string& hint);

// As agree(), for a failure behind the start, also where a rule calls it bad input. Collective.
void agree_running(Communicator& comm, const std::exception_ptr& failure);
// Returns where the failure is that a round was left since the run is asked to stop (Stopped), and
// throws any other. Collective. REQUIRES: some rank has one.
void agree_that_left(Communicator& comm, const std::exception_ptr& failure);

}  // namespace hanse
