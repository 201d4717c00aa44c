// Clients with 1, 3, 7 or 10 made-up samples.
#pragma once

#include <cstdint>
#include <vector>

#include "hanse/comm/communicator.hpp"
#include "hanse/data/federation.hpp"

namespace hanse {

inline Federation unequal_federation(Communicator& comm, const std::vector<int64_t>& shape,
                                     int64_t classes, int64_t tokens, uint64_t seed) {
  DataOptions data;
  data.kind = "random";
  data.shape = shape;
  data.classes = classes;
  data.tokens = tokens;
  data.test_fraction = 0;
  FederationOptions options;
  options.clients = 7;
  options.partition = "sizes";
  options.sizes = {1, 3, 7, 10};
  options.size_probabilities = {0.25, 0.25, 0.25, 0.25};
  return Federation::load(data, options, seed, comm);
}

}  // namespace hanse
