// A small file of model.kind = graph that tells what its last layer reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/graph_file.hpp"

namespace hanse {

// Pictures [1, 12, 12] through h = relu(x W^T + b) to z = h V^T + c; W [4, 144] (0), b (1), V [3,
// 4] (2), c (3), x (4), delta (5), and the delta of h (6).
inline GraphText hidden_graph() {
  GraphText graph;
  graph.sample = "[1,12,12]";
  graph.representation = "[4]";
  graph.add_parameter("fc1.weight", "[4,144]", spread_values(4 * 144));
  graph.add_parameter("fc1.bias", "[4]", {0.5F, -1, 0.25F, 2});
  graph.add_parameter("fc2.weight", "[3,4]", spread_values(3 * 4));
  graph.add_parameter("fc2.bias", "[3]", {0.5F, -1, 0.25F});
  const auto v = graph_value;
  const auto forward = [&](int64_t first) {  // the values from `first` on
    return std::vector{graph_node("aten::view", v(4) + R"(,[{"rows":[1,0]},144])"),
                       graph_node("aten::t", v(0)),
                       graph_node("aten::addmm", v(1) + "," + v(first) + "," + v(first + 1)),
                       graph_node("aten::relu", v(first + 2)),
                       graph_node("aten::t", v(2)),
                       graph_node("aten::addmm", v(3) + "," + v(first + 3) + "," + v(first + 4))};
  };
  graph.evaluation = graph_nodes(forward(5));
  graph.evaluation_output = R"({"output":10,"representation":8})";
  std::vector<std::string> nodes = forward(7);  // h 10, z 12
  for (const std::string& node :
       {graph_node("aten::t", v(5)), graph_node("aten::mm", v(13) + "," + v(10)),
        graph_node("aten::sum", v(5) + ",[0]", "dim_IntList"),
        graph_node("aten::mm", v(5) + "," + v(2)),              // 16
        graph_node("aten::add", v(16) + "," + v(6), "Tensor"),  // 17
        graph_node("aten::threshold_backward", v(17) + "," + v(10) + ",0"),
        graph_node("aten::t", v(18)), graph_node("aten::mm", v(19) + "," + v(7)),
        graph_node("aten::sum", v(18) + ",[0]", "dim_IntList")}) {
    nodes.push_back(node);
  }
  graph.training = graph_nodes(nodes);
  graph.outputs = R"({"output":12,"representation":10,"gradients":[20,21,14,15],"buffers":[]})";
  return graph;
}

}  // namespace hanse
