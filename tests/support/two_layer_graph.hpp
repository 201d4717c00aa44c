// A graph of two dense layers, the first of which tests freeze.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "support/graph_file.hpp"

namespace hanse {

// h = tanh(x W1^T + b1), z = (h - s) W2^T + b2 with s = b1, or the mean of h over the batch, or a
// buffer that becomes that mean in training. W1 [5, 4] is value 0, b1 1, W2 [3, 5] 2, b2 3, and the
// mean a constant on the way back.
struct TwoLayers {
  bool mixes = false;         // s is the mean
  bool moves_buffer = false;  // s is a buffer, value 4
};

inline GraphText two_layer_graph(const TwoLayers& what = {}) {
  GraphText graph;
  graph.add_parameter("first.weight", "[5,4]", spread_values(20));
  graph.add_parameter("first.bias", "[5]", spread_values(5));
  graph.add_parameter("second.weight", "[3,5]", spread_values(15));
  graph.add_parameter("second.bias", "[3]", {0.5F, -1, 0.25F});
  if (what.moves_buffer) {
    graph.add_buffer("center", "F32", "[5]", bytes_of_numbers(spread_values(5)));
  }
  const int64_t x = what.moves_buffer ? 5 : 4, delta = x + 1;
  const auto v = graph_value;
  const auto list = [&](std::vector<int64_t> values) {
    std::vector<std::string> texts;
    for (const int64_t value : values) texts.push_back(v(value));
    return fmt::format("{}", fmt::join(texts, ","));
  };
  const auto forward = [&](int64_t first) {
    const int64_t s = what.mixes ? first + 3 : what.moves_buffer ? 4 : 1;
    return std::vector<std::string>{graph_node("aten::t", v(0)),
                                    graph_node("aten::addmm", list({1, x, first})),
                                    graph_node("aten::tanh", v(first + 1)),
                                    graph_node("aten::mean", v(first + 2) + ",[0]", "dim"),
                                    graph_node("aten::sub", list({first + 2, s}), "Tensor"),
                                    graph_node("aten::t", v(2)),
                                    graph_node("aten::addmm", list({3, first + 4, first + 5}))};
  };
  graph.evaluation = graph_nodes(forward(delta));
  graph.evaluation_output = fmt::format("{}", delta + 6);
  const int64_t h = delta + 3, mean = h + 1, g = h + 2, z = h + 4;
  std::vector<std::string> training = forward(delta + 1);
  for (const std::string& node : {graph_node("aten::t", v(delta)),           // z + 1
                                  graph_node("aten::mm", list({z + 1, g})),  // z + 2
                                  graph_node("aten::sum", v(delta) + ",[0]", "dim_IntList"),
                                  graph_node("aten::mm", list({delta, 2})),             // z + 4
                                  graph_node("aten::tanh_backward", list({z + 4, h})),  // z + 5
                                  graph_node("aten::t", v(z + 5)),                      // z + 6
                                  graph_node("aten::mm", list({z + 6, x})),             // z + 7
                                  graph_node("aten::sum", v(z + 5) + ",[0]", "dim_IntList")}) {
    training.push_back(node);
  }
  graph.training = graph_nodes(training);
  graph.outputs =
      fmt::format(R"({{"output":{},"gradients":[{},{},{},{}],"buffers":[{}]}})", z, z + 7, z + 8,
                  z + 2, z + 3, what.moves_buffer ? fmt::format("{}", mean) : "");
  return graph;
}

}  // namespace hanse
