#include "networks/scripts/script_graph.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/inliner.h>

#include "hanse/model/layout.hpp"

namespace hanse {

namespace {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

// The graph of forward with all that it calls.
std::shared_ptr<Graph> whole_graph(const torch::jit::Module& module) {
  const auto method = module.find_method("forward");
  if (!method) return nullptr;
  auto graph = method->graph()->copy();
  torch::jit::Inline(*graph);
  return graph;
}

std::string operator_name(const Node& node) {
  const std::string name = node.kind().toUnqualString();
  return name.ends_with('_') ? name.substr(0, name.size() - 1) : name;
}

// The argument of this name; null: the operator has none.
const Value* argument(const Node& node, std::initializer_list<std::string_view> names) {
  const auto* schema = node.maybeSchema();
  if (schema == nullptr) return nullptr;
  for (std::size_t i = 0; i < schema->arguments().size() && i < node.inputs().size(); ++i) {
    if (std::ranges::count(names, schema->arguments()[i].name()) > 0) return node.input(i);
  }
  return nullptr;
}

// None for what is no constant, too.
torch::jit::IValue constant(const Value* value) {
  if (value == nullptr) return {};
  const auto known = torch::jit::toIValue(value);
  return known ? *known : torch::jit::IValue();
}

bool is_zero(const torch::jit::IValue& value) { return value.isDouble() && value.toDouble() == 0; }

bool is_none(const Value* value) { return value == nullptr || value->mustBeNone(); }

bool is_norm(const std::string& name) { return name.ends_with("_norm"); }

// Does the operator do in both modes what it should do in one?
bool is_frozen(const Node& node) {
  if (!node.kind().is_aten()) return false;
  const std::string name = operator_name(node);
  if (name == "scaled_dot_product_attention") {
    const torch::jit::IValue share = constant(argument(node, {"dropout_p"}));
    return share.isDouble() && !is_zero(share);
  }
  if (!constant(argument(node, {"train", "training", "use_input_stats"})).isBool()) return false;
  if (is_norm(name)) return !is_none(argument(node, {"running_mean"}));
  return !is_zero(constant(argument(node, {"p", "dropout"})));
}

// The block of a branch on self.training that evaluation runs; null: it is another branch.
const Block* evaluation_block(const Node& branch) {
  if (branch.kind() != c10::prim::If) return nullptr;
  const Node* condition = branch.input(0)->node();
  const bool is_inverse = condition->kind() == c10::aten::__not__;
  if (is_inverse) condition = condition->input(0)->node();
  const bool asks =
      condition->kind() == c10::prim::GetAttr && condition->s(c10::attr::name) == "training";
  return asks ? branch.blocks()[is_inverse ? 0 : 1] : nullptr;
}

bool draws(const Node& node) {
  const torch::jit::IValue on = constant(argument(node, {"train", "training"}));
  return !is_norm(operator_name(node)) && is_frozen(node) && (!on.isBool() || on.toBool());
}

template <class Counts>
void find_operators(const Block& block, const Counts& counts, std::set<std::string>& found) {
  for (const Node* node : block.nodes()) {
    if (const Block* evaluation = evaluation_block(*node)) {
      find_operators(*evaluation, draws, found);
      continue;
    }
    if (counts(*node)) found.insert(operator_name(*node));
    for (const Block* inner : node->blocks()) find_operators(*inner, counts, found);
  }
}

// Is a number made of a tensor's values?
bool comes_of_tensor(const Value* value) {
  const Node* node = value->node();
  if (node->kind() == c10::prim::If) {
    return std::ranges::any_of(node->blocks(), [&](const Block* branch) {
      return comes_of_tensor(branch->outputs()[value->offset()]);
    });
  }
  return std::ranges::any_of(node->inputs(), [](const Value* input) {
    return input->type()->kind() == c10::TypeKind::TensorType || comes_of_tensor(input);
  });
}

bool has_cumulative_norm(const Block& block) {
  return std::ranges::any_of(block.nodes(), [](const Node* node) {
    const Value* share = argument(*node, {"momentum"});
    return (share != nullptr && is_norm(operator_name(*node)) && comes_of_tensor(share)) ||
           std::ranges::any_of(node->blocks(),
                               [](const Block* inner) { return has_cumulative_norm(*inner); });
  });
}

// Their result has the values of their first argument, or some of them.
bool changes_shape(const std::string& name) {
  constexpr std::array<std::string_view, 15> kNames = {
      "view",      "reshape",   "flatten", "unflatten",  "squeeze",
      "unsqueeze", "transpose", "permute", "movedim",    "moveaxis",
      "t",         "slice",     "select",  "contiguous", "clone"};
  return std::ranges::count(kNames, std::string_view(name)) > 0;
}

constexpr std::array<std::string_view, 3> kActivations = {"softmax", "log_softmax", "sigmoid"};

// What makes the value, in either branch that it comes from.
std::string activation_of(const Value* value) {
  const Node* node = value->node();
  if (node->kind() == c10::prim::If) {
    for (const Block* branch : node->blocks()) {
      const std::string name = activation_of(branch->outputs()[value->offset()]);
      if (!name.empty()) return name;
    }
    return "";
  }
  const std::string name = operator_name(*node);
  if (std::ranges::count(kActivations, std::string_view(name)) > 0) return name;
  return node->kind().is_aten() && changes_shape(name) ? activation_of(node->input(0)) : "";
}

struct Places {
  int64_t first, last;
};

// A whole number, or `otherwise` where it is left out; -1: it is no constant.
int64_t whole(const Value* value, int64_t otherwise) {
  if (value == nullptr || is_none(value)) return otherwise;
  const torch::jit::IValue known = constant(value);
  return known.isInt() && known.toInt() >= 0 ? known.toInt() : -1;
}

// The places of a slice, or of one place, along the samples' axis.
c10::optional<Places> part_of(const Node& node, const Places& of) {
  const int64_t axis = whole(argument(node, {"dim"}), 0), size = of.last - of.first;
  if (operator_name(node) == "select") {
    const int64_t place = whole(argument(node, {"index"}), -1);
    if (axis != 1 || place < 0 || place >= size) return {};
    return Places{of.first + place, of.first + place + 1};
  }
  const int64_t begin = whole(argument(node, {"start"}), 0),
                end = whole(argument(node, {"end"}), INT64_MAX);
  if (axis == 0) return begin == 0 && end == INT64_MAX ? c10::optional<Places>(of) : c10::nullopt;
  if (axis != 1 || begin < 0 || end <= begin || whole(argument(node, {"step"}), 1) != 1) return {};
  return Places{of.first + begin, of.first + std::min(end, size)};
}

std::string integer_type(const torch::jit::IValue& type) {
  static const std::pair<at::ScalarType, const char*> types[] = {{at::kByte, "uint8"},
                                                                 {at::kChar, "int8"},
                                                                 {at::kShort, "int16"},
                                                                 {at::kInt, "int32"},
                                                                 {at::kLong, "int64"}};
  for (const auto& [number, name] : types) {
    if (type.isInt() && type.toInt() == static_cast<int64_t>(number)) return name;
  }
  return "";
}

class IntegerParts {
 public:
  IntegerParts(const Value* x, const std::vector<int64_t>& shape)
      : has_one_axis_(shape.size() == 1) {
    known_[x] = {0, size_of(shape)};
  }

  void look(const Block& block) {
    for (const Node* node : block.nodes()) {
      if (node->kind().is_aten() && !node->inputs().empty() && node->outputs().size() == 1) {
        look(*node);
      }
      for (const Block* inner : node->blocks()) look(*inner);
    }
  }
  const std::vector<IntegerPart>& found() const { return found_; }

 private:
  void look(const Node& node) {
    const auto source = known_.find(node.input(0));
    if (source == known_.end()) return;
    const Places places = source->second;
    const std::string name = operator_name(node),
                      type = integer_type(constant(argument(node, {"dtype"})));
    if (name == "to" && !type.empty()) {
      const auto is_known = [&](const IntegerPart& part) {
        return part.first == places.first && part.last == places.last && part.type == type;
      };
      if (std::ranges::none_of(found_, is_known)) {
        found_.push_back({places.first, places.last, type});
      }
    } else if (name == "slice" || name == "select") {
      if (const auto part = has_one_axis_ ? part_of(node, places) : c10::nullopt) {
        known_[node.output()] = *part;
      }
    } else if (changes_shape(name) && name != "transpose" && name != "permute") {
      known_[node.output()] = places;
    }
  }

  bool has_one_axis_;
  std::map<const Value*, Places> known_;
  std::vector<IntegerPart> found_;
};

}  // namespace

std::string frozen_operators(const torch::jit::Module& module) {
  const auto graph = whole_graph(module);
  std::set<std::string> found;
  if (graph) find_operators(*graph->block(), is_frozen, found);
  return fmt::format("{}", fmt::join(found, ", "));
}

std::string last_activation(const torch::jit::Module& module) {
  const auto graph = whole_graph(module);
  return graph && graph->outputs().size() == 1 ? activation_of(graph->outputs()[0]) : "";
}

bool has_cumulative_mean(const torch::jit::Module& module) {
  const auto graph = whole_graph(module);
  return graph && has_cumulative_norm(*graph->block());
}

std::vector<IntegerPart> integer_parts(const torch::jit::Module& module,
                                       const std::vector<int64_t>& sample_shape) {
  const auto graph = whole_graph(module);
  if (!graph || graph->inputs().size() < 2) return {};
  IntegerParts parts(graph->inputs()[1], sample_shape);
  parts.look(*graph->block());
  return parts.found();
}

}  // namespace hanse
