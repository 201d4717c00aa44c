#include "graphs/graph_facts.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "hanse/base/index.hpp"
#include "hanse/model/layout.hpp"

namespace hanse {

namespace {

using Kind = GraphArgument::Kind;

// Their result is the first argument in another shape or order.
bool changes_shape_alone(const std::string& op) {
  static const std::set<std::string> ops = {
      "aten::view",      "aten::_unsafe_view", "aten::reshape",   "aten::flatten",
      "aten::unflatten", "aten::squeeze",      "aten::unsqueeze", "aten::clone",
      "aten::alias",     "aten::detach",       "aten::contiguous"};
  return ops.contains(op);
}

bool changes_order(const std::string& op) {
  static const std::set<std::string> ops = {"aten::transpose", "aten::t",       "aten::permute",
                                            "aten::movedim",   "aten::select",  "aten::slice",
                                            "aten::expand",    "aten::_to_copy"};
  return ops.contains(op);
}

// The value that a node reads first; kNoValue: none.
int64_t source_of(const GraphNode& node) {
  return !node.args.empty() && node.args[0].is(Kind::kValue) ? node.args[0].number : kNoValue;
}

// The number of an argument that may be left out.
std::optional<int64_t> whole_at(const GraphNode& node, std::size_t place, int64_t otherwise) {
  if (place >= node.args.size() || node.args[place].is(Kind::kNone)) return otherwise;
  if (!node.args[place].is(Kind::kInteger)) return {};
  return node.args[place].number;
}

struct Places {
  int64_t first, last;
};

// The places of a slice, or of one place, along the samples' axis.
std::optional<Places> part_of(const GraphNode& node, const Places& of) {
  const auto axis = whole_at(node, 1, 0), begin = whole_at(node, 2, 0);
  if (!axis || !begin || *begin < 0) return {};
  const int64_t size = of.last - of.first;
  if (node.op == "aten::select") {
    if (*axis != 1 || *begin >= size) return {};
    return Places{of.first + *begin, of.first + *begin + 1};
  }
  const auto end = whole_at(node, 3, INT64_MAX), step = whole_at(node, 4, 1);
  if (*axis == 0) return *begin == 0 && end == INT64_MAX ? std::optional(of) : std::nullopt;
  if (*axis != 1 || !end || step != 1 || *end <= *begin) return {};
  return Places{of.first + *begin, of.first + std::min(*end, size)};
}

std::string integer_type_of(const GraphNode& node) {
  static const std::set<std::string> types = {"uint8", "int8", "int16", "int32", "int64"};
  for (const auto& [name, argument] : node.kwargs) {
    if (name == "dtype" && types.contains(argument.text)) return argument.text;
  }
  return "";
}

}  // namespace

std::string last_activation(const OperatorGraph& graph) {
  static const std::map<std::string, std::string> activations = {
      {"aten::_softmax", "softmax"},
      {"aten::_log_softmax", "log_softmax"},
      {"aten::sigmoid", "sigmoid"},
      {"aten::sigmoid_", "sigmoid"}};
  int64_t value = graph.output;
  while (value >= graph.inputs) {
    const GraphNode& node = graph.nodes[to_index(value - graph.inputs)];
    if (const auto found = activations.find(node.op); found != activations.end()) {
      return found->second;
    }
    if (!changes_shape_alone(node.op) && !changes_order(node.op)) return "";
    value = source_of(node);
  }
  return "";
}

std::vector<IntegerPart> integer_parts(const GraphFile& file) {
  std::vector<IntegerPart> found;
  std::map<int64_t, Places> known = {{file.x(), {0, size_of(file.sample)}}};
  for (std::size_t i = 0; i < file.evaluation.nodes.size(); ++i) {
    const GraphNode& node = file.evaluation.nodes[i];
    const auto source = known.find(source_of(node));
    if (source == known.end()) continue;
    const int64_t value = file.evaluation.inputs + static_cast<int64_t>(i);
    const Places places = source->second;
    if (changes_shape_alone(node.op)) {
      known[value] = places;
    } else if (const std::string type = integer_type_of(node);
               node.op == "aten::_to_copy" && !type.empty()) {
      found.push_back({places.first, places.last, type});
    } else if (file.sample.size() == 1 && (node.op == "aten::slice" || node.op == "aten::select")) {
      if (const auto part = part_of(node, places)) known[value] = *part;
    }
  }
  return found;
}

std::vector<WholeNumbers> whole_numbers_of(const std::vector<IntegerPart>& parts,
                                           const std::string& path) {
  constexpr double kMost64 = 0x1p63 - 1024;  // that a double has
  static const std::map<std::string, std::pair<double, double>> ranges = {
      {"uint8", {0, 255}},
      {"int8", {-128, 127}},
      {"int16", {-0x1p15, 0x1p15 - 1}},
      {"int32", {-0x1p31, 0x1p31 - 1}},
      {"int64", {-0x1p63, kMost64}}};
  std::vector<WholeNumbers> found;
  for (const IntegerPart& part : parts) {
    const auto [least, most] = ranges.at(part.type);
    const std::string range =
        part.type == "int64" ? "" : fmt::format(" from {} to {}", least, most);
    found.push_back(
        {.first = part.first,
         .last = part.last,
         .least = least,
         .most = most,
         .what = fmt::format("no whole number{}, and the network converts it to {} ({})", range,
                             part.type, path),
         .key = "model.path",
         .hint = "export the module with a float sample, if it takes fractions"});
  }
  return found;
}

}  // namespace hanse
