#include "networks/graphs/graph_widening.hpp"

#include <set>
#include <string>
#include <utility>

#include <ATen/ATen.h>

#include "hanse/base/index.hpp"

namespace hanse {

namespace {

// They move no value; what else may be one gets a widened argument.
bool only_views(const GraphNode& node) {
  static const std::set<std::string> labels = {"item",
                                               "aten::t",
                                               "aten::transpose.int",
                                               "aten::permute",
                                               "aten::view",
                                               "aten::unsqueeze",
                                               "aten::squeeze",
                                               "aten::squeeze.dim",
                                               "aten::alias",
                                               "aten::detach",
                                               "aten::squeeze.dims",
                                               "aten::slice.Tensor",
                                               "aten::expand",
                                               "aten::select.int",
                                               "aten::_unsafe_view",
                                               "aten::narrow",
                                               "aten::unbind.int",
                                               "aten::split.Tensor",
                                               "aten::split_with_sizes",
                                               "aten::chunk"};
  return labels.contains(node.label());
}

bool looks_up(const GraphNode& node) {
  return node.op == "aten::embedding" || node.op == "aten::index_select";
}

// In the same strides, which decide how LibTorch multiplies.
at::Tensor widened(const at::Tensor& x) {
  if (x.is_non_overlapping_and_dense()) return x.to(at::kFloat);
  const auto n = static_cast<int64_t>(x.storage().nbytes() / x.element_size());
  const at::Tensor all = at::empty({0}, x.options()).set_(x.storage(), 0, {n}, {1});
  return all.to(at::kFloat).as_strided(x.sizes(), x.strides(), x.storage_offset());
}

// The arguments of a call that are bfloat16, widened while it lives.
class Widened {
 public:
  Widened(const GraphProgram& program, int64_t node, const std::vector<char>& narrow,
          std::vector<c10::IValue>& values)
      : program_(program), narrow_(narrow), values_(values) {
    for (const GraphCall::Value& value : program.call(node).values) widen(value.value);
    for (const GraphCall::Tensors& list : program.call(node).lists) {
      for (const int64_t value : list.values) {
        if (value != kNoValue) widen(value);
      }
    }
  }
  ~Widened() {
    for (auto& [value, narrow] : saved_) values_[to_index(value)] = std::move(narrow);
  }
  Widened(const Widened&) = delete;

 private:
  void widen(int64_t value) {
    const int64_t memory = program_.memory_of(value);
    if (memory >= program_.graph().inputs || narrow_[to_index(memory)] == 0) return;
    c10::IValue& at = values_[to_index(value)];
    if (!at.isTensor() || at.toTensor().scalar_type() != at::kBFloat16) return;
    at::Tensor wide = widened(at.toTensor());
    saved_.emplace_back(value, std::exchange(at, std::move(wide)));
  }

  const GraphProgram& program_;
  const std::vector<char>& narrow_;
  std::vector<c10::IValue>& values_;
  std::vector<std::pair<int64_t, c10::IValue>> saved_;
};

}  // namespace

void run_widened(GraphProgram& program, int64_t node, const std::vector<char>& narrow,
                 std::vector<c10::IValue>& values, MaskSource* masks) {
  if (only_views(program.node(node))) return program.run(node, values, masks);
  if (!looks_up(program.node(node))) {
    const Widened arguments(program, node, narrow, values);
    return program.run(node, values, masks);
  }
  program.run(node, values, masks);
  c10::IValue& found = values[to_index(program.graph().inputs + node)];
  if (found.toTensor().scalar_type() == at::kBFloat16) found = found.toTensor().to(at::kFloat);
}

}  // namespace hanse
