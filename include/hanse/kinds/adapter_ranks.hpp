// The ranks of the clients' adapters: client.lora-ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hanse/data/names.hpp"

namespace hanse {

// Reads lines client,rank, one for each client, by number or name. Throws InvalidArgument, with the
// line: another form, a client twice or not at all, a rank outside [1, 1024] or above `most`.
std::vector<int64_t> read_adapter_ranks(const std::string& path, int64_t clients,
                                        const Names& names, int64_t most);

}  // namespace hanse
