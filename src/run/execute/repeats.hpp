// Several runs of one job, with seeds run.seed, run.seed + 1, ..., each in a folder of its own.
#pragma once

#include <cstdint>
#include <string>

namespace hanse {

struct Job;

// Are run.repeats runs to be made one after another? Bandits play theirs at once.
bool has_repeats(const Job& job);

// The run directory of the repeat, counted from 0: run.out/repeats/1 is that of the first.
std::string repeat_folder(const Job& job, int64_t repeat);

// How far the repeat has come: there is nothing to go on with, there is a checkpoint, or all of
// run.rounds are done.
enum class RepeatProgress : int64_t { kNothing, kBegun, kDone };
RepeatProgress repeat_progress(const Job& job, int64_t repeat);

// Writes summary.json in run.out: for every metric the mean over the repeats that have it, as
// NAME_std the sample's deviation (n - 1), and under `n` how many they are. Returns the table for
// the terminal. REQUIRES: all are done.
std::string summarize_repeats(const Job& job);

}  // namespace hanse
