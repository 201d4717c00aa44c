// What a checkpoint says of the data, so that a resumed run goes on with the same.
#pragma once

#include <string>

#include "hanse/base/state.hpp"

namespace hanse {

class Federation;

// The digest of samples, labels, clients and test parts, as 16 hexadecimal digits.
std::string data_digest(const Federation& federation);

// Clients, samples, their shape, classes, the digest, and digests of the names.
State data_facts(const Federation& federation);

// Throws InvalidArgument when the federation is not the one of `facts`, and says in what they
// differ; `where` is the data's path.
void require_same_data(const Federation& federation, const State& facts, const std::string& where);

}  // namespace hanse
