// What a graph of a file says of its network before it runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graphs/graph_file.hpp"
#include "hanse/model/model.hpp"

namespace hanse {

// "softmax", "log_softmax" or "sigmoid", when the graph's output is that, in whatever shape; else
// empty.
HANSE_OWN_COPY std::string last_activation(const OperatorGraph& graph);

// Values of a sample, those in [first, last), that a network converts to integers of a type.
struct IntegerPart {
  int64_t first, last;
  std::string type;  // "uint8", "int8", "int16", "int32" or "int64"
};

// The parts that evaluation converts as they are: x, or slices of samples of one axis.
HANSE_OWN_COPY std::vector<IntegerPart> integer_parts(const GraphFile& file);

// What that asks of samples. `path` is the network's file.
HANSE_OWN_COPY std::vector<WholeNumbers> whole_numbers_of(const std::vector<IntegerPart>& parts,
                                                          const std::string& path);

}  // namespace hanse
