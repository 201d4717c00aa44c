// A graph with max pooling.
#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "support/graph_file.hpp"

namespace hanse {

// z = pool(s x) W^T + b of pictures [1, 12, 12], the largest of 2 x 2 pixels each; W [3, 36] (0),
// b (1), s [1] (2), x (3), delta (4).
inline GraphText pooled_graph() {
  GraphText graph;
  graph.sample = "[1,12,12]";
  graph.add_parameter("weight", "[3,36]", spread_values(3 * 36));
  graph.add_parameter("bias", "[3]", {0.5F, -1, 0.25F});
  graph.add_parameter("scale", "[1]", {1.5F});
  const auto v = graph_value;
  const std::string scaled = graph_node("aten::mul", v(3) + "," + v(2), "Tensor");
  const std::string window = "[2,2],[2,2],[0,0],[1,1],false";
  const auto pool = [&](int64_t of) {
    return graph_node("aten::max_pool2d_with_indices", v(of) + "," + window);
  };
  graph.evaluation = graph_nodes({scaled, pool(4), graph_item(5, 0), graph_rows(6, 36),
                                  graph_node("aten::t", v(0)),  // 4 to 8
                                  graph_node("aten::addmm", v(1) + "," + v(7) + "," + v(8))});
  graph.evaluation_output = "9";
  graph.training = graph_nodes(
      {scaled, pool(5), graph_item(6, 0), graph_item(6, 1), graph_rows(7, 36),
       graph_node("aten::t", v(0)),                                              // 5 to 10
       graph_node("aten::addmm", v(1) + "," + v(9) + "," + v(10)),               // 11
       graph_node("aten::t", v(4)), graph_node("aten::mm", v(12) + "," + v(9)),  // 13: of W
       graph_node("aten::sum", v(4) + ",[0]", "dim_IntList"),                    // 14: of b
       graph_node("aten::mm", v(4) + "," + v(0)),                                // 15
       graph_node("aten::view", v(15) + R"(,[{"rows":[1,0]},1,6,6])"),           // 16
       graph_node("aten::max_pool2d_with_indices_backward",
                  fmt::format("{},{},{},{}", v(16), v(5), window, v(8))),  // 17
       graph_node("aten::mul", v(17) + "," + v(3), "Tensor"),              // 18
       graph_node("aten::sum", v(18) + ",[1,2,3]", "dim_IntList"),         // 19
       graph_node("aten::sum", v(19) + ",[0],true", "dim_IntList")});      // 20: of s
  graph.outputs = R"({"output":11,"gradients":[13,14,20],"buffers":[]})";
  return graph;
}

}  // namespace hanse
