#include "networks/script_graph.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/inliner.h>

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

bool depends_on_training(const Node& branch) {
  const Node* condition = branch.input(0)->node();
  if (condition->kind() == c10::aten::__not__) condition = condition->input(0)->node();
  return condition->kind() == c10::prim::GetAttr && condition->s(c10::attr::name) == "training";
}

void find_frozen(const Block& block, std::set<std::string>& found) {
  for (const Node* node : block.nodes()) {
    if (node->kind() == c10::prim::If && depends_on_training(*node)) continue;
    if (is_frozen(*node)) found.insert(operator_name(*node));
    for (const Block* inner : node->blocks()) find_frozen(*inner, found);
  }
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
  return std::ranges::count(kActivations, std::string_view(name)) > 0 ? name : "";
}

}  // namespace

std::string frozen_operators(const torch::jit::Module& module) {
  const auto graph = whole_graph(module);
  std::set<std::string> found;
  if (graph) find_frozen(*graph->block(), found);
  return fmt::format("{}", fmt::join(found, ", "));
}

std::string last_activation(const torch::jit::Module& module) {
  const auto graph = whole_graph(module);
  return graph && graph->outputs().size() == 1 ? activation_of(graph->outputs()[0]) : "";
}

}  // namespace hanse
