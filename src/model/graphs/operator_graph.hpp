// Operators of a network as data; graph_file.hpp says what each field means.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// hanse-torch.so has these functions, and so has a program that tests them: each uses its own.
#define HANSE_OWN_COPY [[gnu::visibility("hidden")]]

namespace hanse {

constexpr int64_t kNoValue = -1;
constexpr int64_t kMostGraphAxes = 16;  // of a tensor

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
  int64_t output = 0, representation = kNoValue;
  std::vector<int64_t> gradients, buffers;  // kNoValue: none; empty in evaluation
  int64_t backward = 0;                     // the first node that reads delta; nodes.size(): none
};

// Has an item, or a keep, the arguments that it needs?
HANSE_OWN_COPY bool is_whole_item(const GraphNode& node);
HANSE_OWN_COPY bool is_whole_keep(const GraphNode& node);

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
