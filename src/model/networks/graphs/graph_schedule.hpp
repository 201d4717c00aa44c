// What a pass over a graph runs, and when it frees values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "networks/graphs/graph_program.hpp"

namespace hanse {

struct GraphSchedule {
  struct Step {
    int64_t node;
    std::vector<int64_t> apply;    // behind it: gradients, by their numbers, go to their target
    std::vector<int64_t> release;  // behind these: values that no later step reads
  };
  std::vector<Step> forward;         // up to the output and the new buffers, which it keeps
  std::vector<int64_t> apply_first;  // gradients that need no backward step
  std::vector<int64_t> not_kept;     // behind these: values of forward that backward does not read
  std::vector<Step> backward;
};

// What differs from a pass over the whole graph.
struct GraphPart {
  std::vector<char> given = {};       // [nodes] the caller sets their values; empty: none
  std::vector<int64_t> results = {};  // values that the pass keeps; empty: the graph's own
};

// Forward may be that of more gradients than backward, which computes those that are wanted
// [gradients]. `trained`: the parameters, values, one a gradient. A gradient is applied when no
// later step reads its parameter, so that its target may be the parameters themselves, and when no
// later step writes into it. Throws InvalidArgument, which names the file: a gradient is a
// parameter's own memory. Cost: O(nodes and arguments).
GraphSchedule graph_schedule(const GraphProgram& program, const std::vector<int64_t>& trained,
                             const std::vector<char>& wanted, const std::string& path,
                             const GraphPart& part = {});

}  // namespace hanse
