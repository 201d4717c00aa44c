#include "networks/graphs/graph_split.hpp"

#include <algorithm>
#include <string>

#include <ATen/ATen.h>

#include "hanse/base/index.hpp"

namespace hanse {

namespace {

// Is the argument this number in the call as it is made?
bool is_number(const GraphCall& call, std::size_t argument, int64_t number) {
  const c10::IValue& given = call.fixed[argument];
  if (given.isInt()) return given.toInt() == number;
  return given.isDouble() && given.toDouble() == static_cast<double>(number);
}

// Does the node turn a matrix around, or leave it as it is? None: neither.
std::optional<bool> turns(const GraphNode& node, const GraphCall& call) {
  if (node.op == "aten::detach" || node.op == "aten::alias") return false;
  if (node.op == "aten::t") return true;
  const auto axis = [&](std::size_t i) { return (call.fixed[i].toInt() + 2) % 2; };
  if (node.label() == "aten::transpose.int") return axis(1) != axis(2);
  if (node.op == "aten::permute") {
    return (call.fixed[1].toIntVector().front() + 2) % 2 == 1;
  }
  return {};
}

// What a matrix is as this argument of the node; none: neither a factor nor a table.
std::optional<SplitUse::Kind> kind_of(const GraphNode& node, const GraphCall& call,
                                      int64_t argument) {
  if (node.op == "aten::mm")
    return argument == 0 ? SplitUse::Kind::kFirst : SplitUse::Kind::kSecond;
  if (node.op == "aten::addmm" && argument > 0 && is_number(call, 4, 1)) {
    return argument == 1 ? SplitUse::Kind::kFirst : SplitUse::Kind::kSecond;
  }
  if (node.op == "aten::linear" && argument == 1) return SplitUse::Kind::kLinear;
  if (node.op == "aten::embedding" && argument == 0) return SplitUse::Kind::kLookUp;
  return {};
}

// The argument beside the matrix in a product or a look-up.
int64_t other_of(SplitUse::Kind kind, const GraphNode& node, const GraphCall& call) {
  const int64_t first = node.op == "aten::addmm" ? 1 : 0;
  const bool is_behind = kind == SplitUse::Kind::kFirst || kind == SplitUse::Kind::kLookUp;
  const int64_t place = first + (is_behind ? 1 : 0);
  return std::ranges::find(call.values, place, &GraphCall::Value::argument)->value;
}

// Follows a matrix and its views through a graph.
class Follower {
 public:
  Follower(const GraphProgram& program, int64_t matrix) : program_(program), matrix_(matrix) {
    views_[matrix] = false;
  }

  std::optional<SplitUses> uses() {
    for (int64_t i = 0; i < program_.nodes(); ++i) {
      if (!visit(i)) return {};
    }
    const OperatorGraph& graph = program_.graph();
    for (const auto& outputs :
         {std::vector<int64_t>{graph.output}, graph.gradients, graph.buffers}) {
      if (std::ranges::any_of(outputs, [&](int64_t value) { return views_.contains(value); })) {
        return {};
      }
    }
    return uses_;
  }

 private:
  bool reads_list(const GraphCall& call) const {
    return std::ranges::any_of(call.lists, [&](const GraphCall::Tensors& list) {
      return std::ranges::any_of(list.values, [&](int64_t v) { return views_.contains(v); });
    });
  }

  // False: it reads the matrix in another way.
  bool visit(int64_t i) {
    const GraphCall& call = program_.call(i);
    if (reads_list(call)) return false;
    const auto reads = [&](const GraphCall::Value& value) { return views_.contains(value.value); };
    const auto n = std::ranges::count_if(call.values, reads);
    if (n == 0) return true;
    const GraphCall::Value read = *std::ranges::find_if(call.values, reads);
    const bool transposed = views_[read.value];
    if (const auto turned = turns(program_.node(i), call)) {
      views_[program_.graph().inputs + i] = transposed != *turned;
      return true;
    }
    const auto kind = kind_of(program_.node(i), call, read.argument);
    if (!kind || n > 1 ||
        (*kind != SplitUse::Kind::kFirst && *kind != SplitUse::Kind::kSecond && transposed)) {
      return false;
    }
    uses_.insert({i, {*kind, transposed, other_of(*kind, program_.node(i), call), matrix_}});
    return true;
  }

  const GraphProgram& program_;
  int64_t matrix_;
  std::map<int64_t, bool> views_;  // of it: whether they are turned around
  SplitUses uses_;
};

}  // namespace

std::optional<SplitUses> split_uses(const GraphProgram& program, int64_t matrix) {
  return Follower(program, matrix).uses();
}

std::optional<int64_t> factored_gradient(const GraphProgram& program, int64_t gradient) {
  const OperatorGraph& graph = program.graph();
  const int64_t value = graph.gradients[to_index(gradient)], node = value - graph.inputs;
  if (node < graph.backward || program.node(node).op != "aten::mm") return {};
  bool is_read = std::ranges::count(graph.gradients, value) > 1;
  for (int64_t i = node + 1; i < program.nodes(); ++i) {
    for_each_value(program.node(i), [&](int64_t read) { is_read |= read == value; });
  }
  if (is_read) return {};
  return node;
}

void add_split(const SplitUse& use, const SplitMatrix& matrix,
               const std::vector<c10::IValue>& values, const at::Tensor& result) {
  const at::Tensor& x = values[to_index(use.other)].toTensor();
  const bool turned = use.transposed || use.kind == SplitUse::Kind::kLinear;
  // What is read is first second.
  const at::Tensor first = turned ? matrix.a.t() : matrix.b;
  const at::Tensor second = turned ? matrix.b.t() : matrix.a;
  at::Tensor rows = result.view({-1, result.size(-1)});
  if (use.kind == SplitUse::Kind::kFirst) {
    rows.addmm_(first, at::mm(second, x), 1, matrix.scale);
    return;
  }
  const at::Tensor inner = use.kind == SplitUse::Kind::kLookUp
                               ? at::embedding(first, x).reshape({-1, first.size(1)})
                               : at::mm(x.reshape({-1, x.size(-1)}), first);
  rows.addmm_(inner, second, 1, matrix.scale);
}

}  // namespace hanse
