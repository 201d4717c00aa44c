// Loads jobs for a run: read, resolved and checked.
#pragma once

#include <string>
#include <vector>

#include "hanse/base/options.hpp"

namespace hanse {

struct Job;
struct KeyedJob;

// read_job(), and the values of run.name, run.out, the horizons and evaluate.view when they are not
// given. A relative data.path that does not exist is looked for in the job's folder and beside it.
// Throws InvalidArgument that names file, line and key.
void load_job(const std::string& path, const Overrides& overrides, KeyedJob& job);

// Checks what can be checked without data: combinations of options, and that each file is there.
// Throws InvalidArgument.
void check_job(const Job& job);
// The part of it that looks at no file but those of the user's own rules: what goes with what
// (kinds/conflicts.hpp), and what the chosen kinds ask of the job.
void check_kinds(const Job& job);

// Do only the data tell how many clients a job of rounds has? What depends on the number is then
// checked when they have been read, and by check_job() otherwise.
bool asks_the_data(const Job& job);

// Keys the user gave that the job does not use, for one notice: its protocol does not read them, or
// a kind does that is not chosen.
std::vector<std::string> unused_keys(const KeyedJob& job);
// Tells at the start of a run the `lines` of its parts, and which keys have no effect.
void tell_start(const KeyedJob& job, const std::vector<std::string>& lines, bool is_resumed);

}  // namespace hanse
