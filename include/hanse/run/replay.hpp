// Runs one rule on recorded feedback, without training.
#pragma once

#include <string>

namespace hanse {

// `trace` is one JSON object {"rule": {"aggregator.kind": ...}, ...}; the result another one, its
// numbers printed with 17 significant digits. jobs/replay.md has the fields of each family.
// Throws InvalidArgument that names the field: not JSON, an unknown rule or option, a missing or
// malformed array, an id out of range, a number that is not finite.
std::string replay(const std::string& trace);

}  // namespace hanse
