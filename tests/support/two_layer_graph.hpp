// A graph of two dense layers, the first of which tests freeze.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "support/graph_file.hpp"

namespace hanse {

// h = tanh(x W1^T + b1), g = h or h - mean over the batch, z = g W2^T + b2; W1 [5, 4] (value 0), b1
// (1), W2 [3, 5] (2), b2 (3), x (4), delta (5). The mean counts as a constant on the way back.
inline GraphText two_layer_graph(bool mixes = false) {
  GraphText graph;
  graph.add_parameter("first.weight", "[5,4]", spread_values(20));
  graph.add_parameter("first.bias", "[5]", spread_values(5));
  graph.add_parameter("second.weight", "[3,5]", spread_values(15));
  graph.add_parameter("second.bias", "[3]", {0.5F, -1, 0.25F});
  const auto v = graph_value;
  const auto list = [&](std::vector<int64_t> values) {
    std::vector<std::string> texts;
    for (const int64_t value : values) texts.push_back(v(value));
    return fmt::format("{}", fmt::join(texts, ","));
  };
  const auto forward = [&](int64_t first) {
    std::vector<std::string> nodes = {graph_node("aten::t", v(0)),
                                      graph_node("aten::addmm", list({1, 4, first})),
                                      graph_node("aten::tanh", v(first + 1))};
    nodes.push_back(graph_node("aten::mean", v(first + 2) + ",[0]", "dim"));
    nodes.push_back(graph_node("aten::sub", list({first + 2, mixes ? first + 3 : 1}), "Tensor"));
    nodes.push_back(graph_node("aten::t", v(2)));
    nodes.push_back(graph_node("aten::addmm", list({3, first + 4, first + 5})));
    return nodes;
  };
  graph.evaluation = graph_nodes(forward(5));
  graph.evaluation_output = "11";
  std::vector<std::string> training = forward(6);                              // h 8, g 10, z 12
  training.push_back(graph_node("aten::t", v(5)));                             // 13
  training.push_back(graph_node("aten::mm", list({13, 10})));                  // 14
  training.push_back(graph_node("aten::sum", v(5) + ",[0]", "dim_IntList"));   // 15
  training.push_back(graph_node("aten::mm", list({5, 2})));                    // 16
  training.push_back(graph_node("aten::tanh_backward", list({16, 8})));        // 17
  training.push_back(graph_node("aten::t", v(17)));                            // 18
  training.push_back(graph_node("aten::mm", list({18, 4})));                   // 19
  training.push_back(graph_node("aten::sum", v(17) + ",[0]", "dim_IntList"));  // 20
  graph.training = graph_nodes(training);
  graph.outputs = R"({"output":12,"gradients":[19,20,14,15],"buffers":[]})";
  return graph;
}

}  // namespace hanse
