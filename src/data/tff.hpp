// TensorFlow Federated's files; data/README.md has their grammar.
#pragma once

#include <cstdint>
#include <memory>

#include "client_source.hpp"
#include "hanse/data/dataset.hpp"

namespace hanse {

// Throws InvalidArgument: files that are missing, damaged or lack what the options name.
std::unique_ptr<ClientSource> make_tff_source(const DataOptions& data, uint64_t seed);

}  // namespace hanse
