// What the commands of the program do: runs a job from its first round, or from its last
// checkpoint, to its end, converts its data, or runs one rule on recorded feedback, without
// training.
#pragma once

#include <string>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"
#include "hanse/comm/communicator.hpp"

namespace hanse {

// Reports errors of the options without a look at data; one line when there are none. Throws
// InvalidArgument.
std::string check_job_file(const std::string& job_file, const Overrides& overrides);

// Both are collective; `start_s` is monotonic_seconds() at the start of the process. They return
// kDone or kStopped, and throw AgreedError when a rank failed.

// Trains the job from its first round.
ExitStatus run_job(const std::string& job_file, const Overrides& overrides, Communicator& comm,
                   double start_s);

// Continues from the newest complete checkpoint of `run_directory`, on any number of ranks.
// `overrides` may name options that may change on resume (`hanse list --markdown` has them);
// another key is an InvalidArgument.
ExitStatus resume_job(const std::string& run_directory, const Overrides& overrides,
                      Communicator& comm, double start_s);

// Writes the clients and samples of a job as a file of data.kind = hanse, whole or not at all;
// returns a line that says how much. Only the keys of [data] and [federation], and run.seed, count.
// Cost: while csv, idx and made up data are converted, twice the samples on the output's disk, of
// which the system keeps pages in memory; one client in memory for the other kinds.
// Throws InvalidArgument (job, input, an output that exists while run.overwrite is not set) and
// IoError (no room).
std::string convert_job(const std::string& job_file, const Overrides& overrides,
                        const std::string& out);

// Copies what a private run may publish to a new folder, and nothing else: model.h5, averaged.h5
// where there is one, and of rounds.csv the columns that the guarantee covers. The folder appears
// whole or not at all. Returns a line that says what it holds and what it has cost.
// Throws InvalidArgument: no run directory, a run that is not private or has not ended, repeats, a
// round that numbers without noise have chosen, a folder that is there.
std::string publish_run(const std::string& run_directory, const std::string& out);

// From here on SIGUSR1, SIGUSR2 and SIGXCPU, by which schedulers warn of the end, are remembered,
// also those since the process began: the launcher holds them back. SIGTERM, SIGINT and SIGHUP
// still end the process at once, as there is nothing to keep.
void catch_stop_warnings();

// Call it when rounds begin: SIGTERM, SIGINT and SIGHUP are remembered, too; an ignored SIGHUP
// (nohup) stays ignored. A second SIGTERM or SIGINT, at least 0.2 s after the first, ends the
// process as if nobody had caught it, whatever it waits for.
void catch_stop_signals();

// For commands without rounds: any request ends the process.
void end_at_stop_signals();

// `trace` is one JSON object {"rule": {"aggregator.kind": ...}, ...}; the result is another, its
// numbers printed with 17 significant digits. jobs/replay.md has the fields of each family. Throws
// InvalidArgument that names the field: not JSON, an unknown rule or option, a missing or malformed
// array, an id out of range, a number that is not finite.
std::string replay(const std::string& trace);

// Plays it twice, the second time so that in every round a fresh rule goes on from the state that
// the last one has saved, beside it or in its place (bandits and rates of clients have none and are
// played alike). A sampler also draws in every round. Returns a line that says that all have the
// same bits.
// Throws as replay() does, and Error that names the round and the first number that differs.
std::string check_replay(const std::string& trace);

}  // namespace hanse
