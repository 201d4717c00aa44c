// Small files of model.kind = graph, written by hand.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "support/scratch_folder.hpp"
#include "support/weight_file.hpp"

namespace hanse {

// A graph file in parts, each the JSON that stands in its place.
struct GraphText {
  std::string sample = "[4]", output = "[3]";
  std::string representation;                  // empty: there is none
  std::string parameters, buffers, constants;  // what stands in the lists
  std::string evaluation, evaluation_output;
  std::string training, outputs;
  std::string tensors;  // of the safetensors header
  std::string bytes;

  // A tensor of the file.
  void add(const std::string& name, const std::string& type, const std::string& shape,
           const std::string& values) {
    const std::size_t begin = bytes.size();
    bytes += values;
    tensors += fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}},)", name,
                           type, shape, begin, bytes.size());
  }
  void add_parameter(const std::string& name, const std::string& shape,
                     const std::vector<float>& values, const std::string& trains = "true") {
    add(name, "F32", shape, bytes_of_numbers(values));
    if (!parameters.empty()) parameters += ",";
    parameters += fmt::format(R"({{"name":"{}","tensor":"{}","trains":{}}})", name, name, trains);
  }
  void add_buffer(const std::string& name, const std::string& type, const std::string& shape,
                  const std::string& values) {
    add(name, type, shape, values);
    if (!buffers.empty()) buffers += ",";
    buffers += fmt::format(R"({{"name":"{}","tensor":"{}"}})", name, name);
  }

  std::string note() const {
    return fmt::format(
        R"({{"format":1,"writer":"hand","sample":{},"output":{},{}"parameters":[{}],)"
        R"("buffers":[{}],"constants":[{}],"graphs":{{"evaluation":{{"nodes":[{}],"outputs":{}}},)"
        R"("training":{{"nodes":[{}],"outputs":{}}}}}}})",
        sample, output,
        representation.empty() ? "" : fmt::format(R"("representation":{},)", representation),
        parameters, buffers, constants, evaluation, evaluation_output, training, outputs);
  }

  // The file, with `note` in the place of its own.
  std::string file(const std::string& note) const {
    std::string text;
    for (const char c : note)
      text += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    return safetensors_file(
        fmt::format(R"({{{}"__metadata__":{{"format":"pt","hanse.graph":"{}"}}}})", tensors, text),
        bytes);
  }
  std::string file() const { return file(note()); }
};

// A node; `args` stands in its list.
inline std::string graph_node(const std::string& op, const std::string& args,
                              const std::string& overload = "") {
  return fmt::format(R"({{"op":"{}","overload":"{}","args":[{}]}})", op, overload, args);
}

inline std::string graph_value(int64_t number) { return fmt::format(R"({{"v":{}}})", number); }

// A tensor of a node's several results.
inline std::string graph_item(int64_t of, int64_t place) {
  return graph_node("item", fmt::format("{},{}", graph_value(of), place));
}

// A batch as rows [n, values].
inline std::string graph_rows(int64_t of, int64_t values) {
  return graph_node("aten::view",
                    fmt::format(R"({},[{{"rows":[1,0]}},{}])", graph_value(of), values));
}

// The nodes of a list.
inline std::string graph_nodes(const std::vector<std::string>& nodes) {
  return fmt::format("{}", fmt::join(nodes, ","));
}

inline std::vector<float> spread_values(int64_t n) {
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>(i * 7 % 11 - 5) / 8);
  return values;
}

// z = x W^T + b; W [3, 4] (value 0), b [3] (1), x (2), delta (3).
inline GraphText linear_graph(const std::string& weight_trains = "true") {
  GraphText graph;
  graph.add_parameter("weight", "[3,4]", spread_values(12), weight_trains);
  graph.add_parameter("bias", "[3]", {0.5F, -1, 0.25F});
  const auto v = graph_value;
  graph.evaluation = graph_nodes(
      {graph_node("aten::t", v(0)), graph_node("aten::addmm", v(1) + "," + v(2) + "," + v(3))});
  graph.evaluation_output = "4";
  graph.training = graph_nodes({graph_node("aten::t", v(0)),                                // 4
                                graph_node("aten::addmm", v(1) + "," + v(2) + "," + v(4)),  // 5
                                graph_node("aten::t", v(3)),                                // 6
                                graph_node("aten::mm", v(6) + "," + v(2)),                  // 7
                                graph_node("aten::sum", v(3) + ",[0]", "dim_IntList")});    // 8
  const std::string gradients = weight_trains == "true" ? "[7,8]" : "[8]";
  graph.outputs = fmt::format(R"({{"output":5,"gradients":{},"buffers":[]}})", gradients);
  return graph;
}

// z = x W^T + b of pictures [1, 12, 12]; W [3, 144] (0), b (1), x (2), delta (3).
inline GraphText picture_graph() {
  GraphText graph;
  graph.sample = "[1,12,12]";
  graph.add_parameter("weight", "[3,144]", spread_values(3 * 144));
  graph.add_parameter("bias", "[3]", {0.5F, -1, 0.25F});
  const auto v = graph_value;
  const std::string flat = graph_rows(2, 144);
  graph.evaluation = graph_nodes({flat, graph_node("aten::t", v(0)),  // 3, 4
                                  graph_node("aten::addmm", v(1) + "," + v(3) + "," + v(4))});  // 5
  graph.evaluation_output = "5";
  graph.training = graph_nodes({flat, graph_node("aten::t", v(0)),                          // 4, 5
                                graph_node("aten::addmm", v(1) + "," + v(4) + "," + v(5)),  // 6
                                graph_node("aten::t", v(3)),                                // 7
                                graph_node("aten::mm", v(7) + "," + v(4)),                  // 8
                                graph_node("aten::sum", v(3) + ",[0]", "dim_IntList")});    // 9
  graph.outputs = R"({"output":6,"gradients":[8,9],"buffers":[]})";
  return graph;
}

// As picture_graph(), behind batch norm of the one channel: W (0), b (1), scale [1] (2),
// running_mean (3), running_var (4), x (5), delta (6). Momentum 0.25.
inline GraphText picture_norm_graph() {
  GraphText graph;
  graph.sample = "[1,12,12]";
  graph.add_parameter("weight", "[3,144]", spread_values(3 * 144));
  graph.add_parameter("bias", "[3]", {0.5F, -1, 0.25F});
  graph.add_parameter("scale", "[1]", {1.5F});
  graph.add_buffer("running_mean", "F32", "[1]", bytes_of_numbers(std::vector<float>{0.5F}));
  graph.add_buffer("running_var", "F32", "[1]", bytes_of_numbers(std::vector<float>{2}));
  const auto v = graph_value;
  const auto norm = [&](int64_t mean, int64_t variance, const char* training) {
    return graph_node("aten::native_batch_norm", fmt::format("{},{},null,{},{},{},0.25,1e-05", v(5),
                                                             v(2), v(mean), v(variance), training));
  };
  graph.evaluation = graph_nodes({norm(3, 4, "false"), graph_item(6, 0), graph_rows(7, 144),
                                  graph_node("aten::t", v(0)),  // 9
                                  graph_node("aten::addmm", v(1) + "," + v(8) + "," + v(9))});
  graph.evaluation_output = "10";
  graph.training = graph_nodes(
      {graph_node("aten::clone", v(3)), graph_node("aten::clone", v(4)),  // 7, 8
       norm(7, 8, "true"), graph_item(9, 0), graph_item(9, 1), graph_item(9, 2),
       graph_rows(10, 144),                                                       // 9 to 13
       graph_node("aten::t", v(0)),                                               // 14
       graph_node("aten::addmm", v(1) + "," + v(13) + "," + v(14)),               // 15
       graph_node("aten::t", v(6)), graph_node("aten::mm", v(16) + "," + v(13)),  // 17: of W
       graph_node("aten::mm", v(6) + "," + v(0)),                                 // 18
       graph_node("aten::view", v(18) + R"(,[{"rows":[1,0]},1,12,12])"),          // 19
       graph_node("aten::native_batch_norm_backward",
                  fmt::format("{},{},{},{},{},{},{},true,1e-05,[true,true,false]", v(19), v(5),
                              v(2), v(7), v(8), v(11), v(12))),                     // 20
       graph_item(20, 1), graph_node("aten::sum", v(6) + ",[0]", "dim_IntList")});  // 21: scale; 22
  graph.outputs = R"({"output":15,"gradients":[17,22,21],"buffers":[7,8]})";
  return graph;
}

// z = (x * keep) W^T + b with keep(p); W (0), b (1), x (2), delta (3).
inline GraphText dropout_graph(const std::string& p = "0.75") {
  GraphText graph = linear_graph();
  const auto v = graph_value;
  graph.training =
      graph_nodes({graph_node("hanse::keep", R"([{"rows":[1,0]},4],)" + p + R"(,"float")"),  // 4
                   graph_node("aten::mul", v(2) + "," + v(4), "Tensor"),                     // 5
                   graph_node("aten::t", v(0)),                                              // 6
                   graph_node("aten::addmm", v(1) + "," + v(5) + "," + v(6)),                // 7
                   graph_node("aten::t", v(3)),                                              // 8
                   graph_node("aten::mm", v(8) + "," + v(5)),                                // 9
                   graph_node("aten::sum", v(3) + ",[0]", "dim_IntList")});                  // 10
  graph.outputs = R"({"output":7,"gradients":[9,10],"buffers":[]})";
  return graph;
}

// Batch norm of 4 values with a scale, and a dense layer: W [3, 4] (0), b [3] (1), scale [4] (2),
// running_mean (3), running_var (4), batches (5), x (6), delta (7). Momentum 0.25.
inline GraphText norm_graph() {
  GraphText graph;
  graph.add_parameter("weight", "[3,4]", spread_values(12));
  graph.add_parameter("bias", "[3]", {0.5F, -1, 0.25F});
  graph.add_parameter("scale", "[4]", {1, 1.5F, 0.5F, 2});
  graph.add_buffer("running_mean", "F32", "[4]",
                   bytes_of_numbers(std::vector<float>{0, 1, -1, 0.5F}));
  graph.add_buffer("running_var", "F32", "[4]",
                   bytes_of_numbers(std::vector<float>{1, 2, 1.5F, 1}));
  graph.add_buffer("batches", "I64", "[]", number_bytes(5, 8));
  const auto v = graph_value;
  const auto norm = [&](int64_t mean, int64_t variance, const char* training) {
    return graph_node("aten::native_batch_norm", fmt::format("{},{},null,{},{},{},0.25,1e-05", v(6),
                                                             v(2), v(mean), v(variance), training));
  };
  graph.evaluation =
      graph_nodes({norm(3, 4, "false"), graph_item(7, 0), graph_node("aten::t", v(0)),
                   graph_node("aten::addmm", v(1) + "," + v(8) + "," + v(9))});
  graph.evaluation_output = "10";
  graph.training =
      graph_nodes({graph_node("aten::clone", v(3)),                              // 8
                   graph_node("aten::clone", v(4)),                              // 9
                   graph_node("aten::add", v(5) + ",1", "Tensor"),               // 10
                   norm(8, 9, "true"),                                           // 11
                   graph_item(11, 0), graph_item(11, 1), graph_item(11, 2),      // 12, 13, 14
                   graph_node("aten::t", v(0)),                                  // 15
                   graph_node("aten::addmm", v(1) + "," + v(12) + "," + v(15)),  // 16
                   graph_node("aten::t", v(7)),                                  // 17
                   graph_node("aten::mm", v(17) + "," + v(12)),                  // 18: of W
                   graph_node("aten::mm", v(7) + "," + v(0)),                    // 19: of the norm
                   graph_node("aten::native_batch_norm_backward",
                              fmt::format("{},{},{},{},{},{},{},true,1e-05,[true,true,false]",
                                          v(19), v(6), v(2), v(8), v(9), v(13), v(14))),  // 20
                   graph_item(20, 1),                                        // 21: of the scale
                   graph_node("aten::sum", v(7) + ",[0]", "dim_IntList")});  // 22
  graph.outputs = R"({"output":16,"gradients":[18,22,21],"buffers":[8,9,10]})";
  return graph;
}

// Writes the file to a folder of the process, which goes with it, and returns its path.
inline std::string written(const GraphText& graph) {
  static const ScratchFolder folder;
  static int number = 0;
  const std::string path = folder / ("net-" + std::to_string(++number) + ".graph");
  std::ofstream(path, std::ios::binary) << graph.file();
  return path;
}

}  // namespace hanse
