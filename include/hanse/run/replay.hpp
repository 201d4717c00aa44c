// Runs one rule on recorded feedback, without training.
#pragma once

#include <string>

namespace hanse {

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
