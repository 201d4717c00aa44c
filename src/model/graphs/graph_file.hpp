// A network as data: the file of model.kind = graph. It is a safetensors file with all tensors, and
// the note "hanse.graph" in JSON:
//   {"format": 1, "writer": TEXT,
//    "compared": N                            with the module, in batches of up to so many rows
//    "sample": SHAPE, "output": SHAPE          of one sample: [outputs] or [positions, outputs]
//    "parameters": [{"name", "tensor", "trains", "also": [further names],
//                    "uses": {NAME: "transposed"|"embedding"}}],     where it is no dense layer's
//    "buffers": [{"name", "tensor"}], "constants": [tensor],
//    "graphs": {"evaluation": {"nodes": [NODE], "outputs": output},
//               "training": {"nodes": [NODE],
//                            "outputs": {"output", "gradients": [one a parameter that trains],
//                                        "buffers": [one a buffer: its new value]}}}}
// Values are numbered: parameters, buffers, constants, x [n, sample], in training delta [n, output]
// (the loss's gradient with respect to the output), then the result of each node. A node reads
// values before its own alone:
//   {"op": "aten::addmm", "overload": "", "args": [ARG], "kwargs": {NAME: ARG}}
//   {"op": "item", "args": [{"v": N}, I]}               one of several results of a node
//   {"op": "hanse::keep", "args": [[ARG], P, "float"|"bool"]}   1 with probability P, else 0
//   ARG: null, true, 1, 1.0, "text", [ARG], {"v": value}, {"rows": [a, b]} (a n + b for n rows),
//        {"f": "inf"|"-inf"|"nan"}, {"dtype": T}, {"layout": "strided"}, {"device": "cpu"},
//        {"memory_format": "contiguous"|"channels_last"|"preserve"}
// Nothing here knows an operator; networks/graphs/graph_program.hpp does.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hanse/model/layout.hpp"
#include "weights/safetensors.hpp"

// hanse-torch.so has these functions, and so has a program that tests them: each uses its own.
#define HANSE_OWN_COPY [[gnu::visibility("hidden")]]

namespace hanse {

constexpr int64_t kNoValue = -1;

struct GraphArgument {
  enum class Kind {
    kNone,
    kBool,          // number
    kInteger,       // number
    kFloat,         // real
    kText,          // text
    kList,          // items
    kValue,         // number
    kRows,          // a_row n + number
    kDtype,         // text
    kLayout,        // strided
    kDevice,        // the CPU
    kMemoryFormat,  // text
  };
  Kind kind = Kind::kNone;
  int64_t number = 0, a_row = 0;
  double real = 0;
  std::string text = "";
  std::vector<GraphArgument> items = {};

  bool is(Kind other) const { return kind == other; }
};

struct GraphNode {
  std::string op, overload;
  std::vector<GraphArgument> args;
  std::vector<std::pair<std::string, GraphArgument>> kwargs;

  bool is_item() const { return op == "item"; }
  bool is_keep() const { return op == "hanse::keep"; }
  std::string label() const { return overload.empty() ? op : op + "." + overload; }
};

struct OperatorGraph {
  std::vector<GraphNode> nodes;
  int64_t inputs = 0;  // values before that of the first node
  int64_t output = 0;
  std::vector<int64_t> gradients, buffers;  // kNoValue: none; empty in evaluation
  int64_t backward = 0;                     // the first node that reads delta; nodes.size(): none
};

struct GraphParameter {
  std::string name;
  const StoredTensor* tensor;  // float32
  bool trains;
  std::vector<std::string> also;
  std::map<std::string, MatrixUse> uses;  // of its names
};

struct GraphBuffer {
  std::string name;
  const StoredTensor* tensor;  // float32 or int64

  bool is_float() const { return tensor->type == "F32"; }
};

struct GraphFile {
  std::shared_ptr<const SafetensorsFile> tensors;  // whose bytes the others have
  std::vector<int64_t> sample, output;             // shapes
  int64_t compared = 0;                            // rows; 0: not told
  std::vector<GraphParameter> parameters;          // some train
  std::vector<GraphBuffer> buffers;
  std::vector<const StoredTensor*> constants;  // float32, int64 or bool
  OperatorGraph evaluation, training;

  // Values of both graphs.
  int64_t first_buffer() const { return std::ssize(parameters); }
  int64_t first_constant() const { return first_buffer() + std::ssize(buffers); }
  int64_t x() const { return first_constant() + std::ssize(constants); }
  int64_t delta() const { return x() + 1; }  // training alone
};

// Throws InvalidArgument, one line that names the file: no such file, damaged, or longer and deeper
// than any network. Memory: the JSON's about 32 times. Cost: one pass over the header.
HANSE_OWN_COPY GraphFile read_graph_file(const std::string& path);

// May a graph of somebody else's name this operator? They are those of
// scripts/python/hanse/operators.txt, computations on tensors: none reads or writes files, memory
// that it did not get, or random numbers. Operators that write into an argument are among them.
HANSE_OWN_COPY bool is_allowed_operator(const std::string& name);

// Calls `read` with the value of every argument of the node, those in lists too.
template <class Read>
void for_each_value(const std::vector<GraphArgument>& arguments, const Read& read) {
  for (const GraphArgument& argument : arguments) {
    if (argument.is(GraphArgument::Kind::kValue)) read(argument.number);
    for_each_value(argument.items, read);
  }
}

template <class Read>
void for_each_value(const GraphNode& node, const Read& read) {
  for_each_value(node.args, read);
  for (const auto& [name, argument] : node.kwargs) {
    if (argument.is(GraphArgument::Kind::kValue)) read(argument.number);
    for_each_value(argument.items, read);
  }
}

}  // namespace hanse
