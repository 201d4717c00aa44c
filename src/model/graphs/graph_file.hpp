// A network as data: the file of model.kind = graph. It is a safetensors file with all tensors, and
// the note "hanse.graph" in JSON:
//   {"format": 1, "writer": TEXT,
//    "compared": N                            with the module, in batches of up to so many rows
//    "sample": SHAPE, "output": SHAPE          of one sample: [outputs] or [positions, outputs]
//    "representation": SHAPE                   of what the last layer reads of a sample, [width] or
//                                              [positions, width]; absent: it is not told
//    "parameters": [{"name", "tensor", "trains", "also": [further names],
//                    "uses": {NAME: "transposed"|"embedding"}}],     where it is no dense layer's
//    "buffers": [{"name", "tensor"}], "constants": [tensor],
//    "graphs": {"evaluation": {"nodes": [NODE], "outputs": output},     with a representation
//                             {"nodes": [NODE], "outputs": {"output", "representation"}},
//               "training": {"nodes": [NODE],
//                            "outputs": {"output", "representation" likewise,
//                                        "gradients": [one a parameter that trains],
//                                        "buffers": [one a buffer: its new value]}}}}
// Values are numbered: parameters, buffers, constants, x [n, sample], in training delta [n, output]
// (the loss's gradient with respect to the output) and, with a representation, the same with
// respect to that [n, representation], then the result of each node. A node reads values before its
// own alone:
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

#include "graphs/operator_graph.hpp"
#include "hanse/model/layout.hpp"
#include "weights/safetensors.hpp"

namespace hanse {

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
  std::vector<int64_t> representation;             // likewise; empty: not told
  int64_t compared = 0;                            // rows; 0: not told
  std::vector<GraphParameter> parameters;          // some train
  std::vector<GraphBuffer> buffers;
  std::vector<const StoredTensor*> constants;  // float32, int64 or bool
  OperatorGraph evaluation, training;

  // Values of both graphs.
  int64_t first_buffer() const { return std::ssize(parameters); }
  int64_t first_constant() const { return first_buffer() + std::ssize(buffers); }
  int64_t x() const { return first_constant() + std::ssize(constants); }
  int64_t delta() const { return x() + 1; }  // training alone, as the next
  int64_t representation_delta() const { return representation.empty() ? kNoValue : x() + 2; }
};

// Throws InvalidArgument, one line that names the file: no such file, damaged, or longer and deeper
// than any network. Memory: the JSON's about 32 times. Cost: one pass over the header.
HANSE_OWN_COPY GraphFile read_graph_file(const std::string& path);

// May a graph of somebody else's name this operator? They are those of
// scripts/python/hanse/operators.txt, computations on tensors: none reads or writes files, memory
// that it did not get, or random numbers. Operators that write into an argument are among them.
HANSE_OWN_COPY bool is_allowed_operator(const std::string& name);

}  // namespace hanse
