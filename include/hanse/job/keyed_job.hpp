// A job whose options have keys, so that job files and command lines can set them.
#pragma once

#include <span>
#include <string>

#include "hanse/base/options.hpp"
#include "hanse/job/job.hpp"
#include "hanse/job/kind.hpp"

namespace hanse {

struct KeyedJob : Job {
  // The keys of every section, and those of the families' kinds.
  explicit KeyedJob(std::span<const KindFamily> families);
  KeyedJob(const KeyedJob&) = delete;
  KeyedJob& operator=(const KeyedJob&) = delete;

  OptionTable table;
};

// The keys and values of a job file, as they stand there. Throws InvalidArgument that names file
// and line: it is no job file.
Overrides job_lines(const std::string& path);

// Reads "[section]" and "key = value" lines into `job`; then `overrides` from the command line,
// which win. '#' starts a comment.
// Throws InvalidArgument that names file, line and key.
void read_job(const std::string& path, const Overrides& overrides, KeyedJob& job);

// Throws InvalidArgument when a value cannot stand in a job file: a resume reads the run's job.cfg.
void require_writable(const KeyedJob& job);

// Every option with its value, as a valid job file.
std::string job_text(const KeyedJob& job);

}  // namespace hanse
