// Makes the virtual clock of a job, with its files.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hanse/data/names.hpp"
#include "hanse/rules/clock/on_line.hpp"
#include "hanse/rules/clock/options.hpp"
#include "hanse/rules/clock/tasks.hpp"

namespace hanse {

struct Job;

// What a run's clock is made of; the parts refer to one another.
struct VirtualClock {
  std::unique_ptr<TaskTimes> times;
  std::unique_ptr<OnLine> on_line;
  std::unique_ptr<Tasks> tasks;
};

// `samples` [M]: training samples of each client, `names` of clients, those held out too, or none.
// `seed`: clock.seed, or run.seed. Reads the files that the options name, in which clients stand by
// their numbers or their names. Throws InvalidArgument that names the file, the line and the field.
VirtualClock make_virtual_clock(const ClockOptions& options, std::span<const int64_t> samples,
                                const Names& names, ClientWork work, uint64_t seed);

// The keys of files that the clock reads, and their paths: for their digests.
std::vector<std::pair<std::string, std::string>> clock_files(const ClockOptions& options);

// Refuses what the kinds' own checks cannot know without the data. Throws InvalidArgument that says
// why.
void check_clock(const Job& job, int64_t clients);

// Do all count in a round who are drawn for it, on line and in time?
bool all_drawn_count(const Job& job);

// Why nobody knows in closed form who counts under these options (aggregator.estimator = arrival);
// empty: inclusion_probabilities() says it.
std::string no_inclusion(const Job& job);

}  // namespace hanse
