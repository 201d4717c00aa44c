#include "networks/graphs/graph_program.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <stdexcept>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/version.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/model/torch_library.hpp"
#include "networks/graphs/graph_arguments.hpp"

namespace hanse {

namespace {

using Kind = GraphArgument::Kind;

// Their results may be the argument's memory, though their schemas do not say so.
bool returns_a_view(const std::string& op) {
  static const std::set<std::string> ops = {
      "aten::_unsafe_view",   "aten::unsafe_split", "aten::unsafe_split_with_sizes",
      "aten::unsafe_chunk",   "aten::type_as",      "aten::pixel_shuffle",
      "aten::tile",           "aten::contiguous",   "aten::pixel_unshuffle",
      "aten::channel_shuffle"};
  return ops.contains(op);
}

bool makes_empty_memory(const std::string& op) {
  static const std::set<std::string> ops = {"aten::empty", "aten::empty_like", "aten::new_empty",
                                            "aten::empty_strided", "aten::new_empty_strided"};
  return ops.contains(op);
}

bool is_list_of_tensors(const c10::Type& type, bool& optional) {
  const auto* list = type.castRaw<c10::ListType>();
  if (list == nullptr) return false;
  const c10::Type& element = *list->getElementType();
  optional = element.kind() == c10::TypeKind::OptionalType;
  return optional || element.kind() == c10::TypeKind::TensorType;
}

}  // namespace

GraphProgram::GraphProgram(const OperatorGraph& graph, const std::string& path, at::Device device,
                           bool narrow)
    : graph_(graph),
      path_(path),
      device_(device),
      narrow_(narrow),
      calls_(graph.nodes.size()),
      memory_(to_index(values())),
      kinds_(to_index(values()), kTensor) {
  std::iota(memory_.begin(), memory_.end(), int64_t{0});
  for (int64_t i = 0; i < nodes(); ++i) {
    try {
      resolve(i);
    } catch (const std::invalid_argument& error) {
      const bool lacks_operator = !node(i).is_item() && !call(i).op;
      throw InvalidArgument(
          fmt::format("node {} of the graph, {}: {}", i, node(i).label(), error.what()), path_,
          lacks_operator ? newer_torch_hint(TORCH_VERSION)
                         : "hanse.export(module, sample, path) in Python writes one");
    }
  }
  for (const auto& outputs : {std::vector<int64_t>{graph_.output, graph_.representation},
                              graph_.gradients, graph_.buffers}) {
    for (const int64_t value : outputs) {
      if (value != kNoValue && kinds_[to_index(value)] != kTensor) {
        throw InvalidArgument("an output of the graph is no tensor", path_, "");
      }
    }
  }
  require_own_memory();
}

void GraphProgram::resolve(int64_t i) {
  const GraphNode& node = this->node(i);
  if (node.is_item()) return add_item(i);
  if (node.is_keep()) {
    draws_ = true;
    return;
  }
  GraphCall& call = calls_[to_index(i)];
  const auto found = c10::Dispatcher::singleton().findSchema({node.op, node.overload});
  if (!found) {
    throw std::invalid_argument(fmt::format("LibTorch {} has no such operator", TORCH_VERSION));
  }
  call.op = *found;
  call.guard = graph_guard(node.op);
  if (device_.is_cpu()) call.kernel = graph_kernel(node.label());
  call.is_empty = makes_empty_memory(node.op);
  const c10::FunctionSchema& schema = call.op->schema();
  if (schema.is_vararg() || schema.is_varret()) throw std::invalid_argument("its schema is open");
  add_arguments(i, schema);
  add_results(i, schema);
  if (!narrow_) return;
  for (GraphCall::Value& value : call.values) {
    value.is_factor = is_factor(node.op, value.argument);
    if (value.is_factor) call.correct = correction_of(node.op);
  }
}

void GraphProgram::add_item(int64_t i) {
  const int64_t source = node(i).args[0].number, place = node(i).args[1].number;
  const int64_t kind = kinds_[to_index(source)];
  if (kind == kTensor || (kind != kList && place >= kind)) {
    throw std::invalid_argument(fmt::format("value {} has no item {}", source, place));
  }
  join(graph_.inputs + i, source);
}

void GraphProgram::require_tensor(int64_t value) const {
  if (kinds_[to_index(value)] == kTensor) return;
  throw std::invalid_argument(fmt::format("value {} is several tensors", value));
}

void GraphProgram::add_arguments(int64_t i, const c10::FunctionSchema& schema) {
  GraphCall& call = calls_[to_index(i)];
  const auto sources = placed(node(i), schema);
  for (std::size_t k = 0; k < sources.size(); ++k) {
    const c10::Argument& argument = schema.arguments()[k];
    if (argument.is_out()) throw std::invalid_argument("it writes into an argument out");
    const auto place = static_cast<int64_t>(k);
    if (sources[k] == nullptr) {
      call.fixed.push_back(*argument.default_value());
      continue;
    }
    const GraphArgument& source = *sources[k];
    call.fixed.push_back(converted(source, argument, 1, device_));
    if (holds_rows(source)) call.rows.push_back({place, &source});
    const bool is_written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    bool optional = false;
    if (source.is(Kind::kValue)) {
      require_tensor(source.number);
      call.values.push_back({place, source.number});
      if (is_written) call.writes.push_back(source.number);
    } else if (is_list_of_tensors(*argument.type(), optional) && !source.is(Kind::kNone)) {
      GraphCall::Tensors tensors{place, optional, {}};
      for (const GraphArgument& item : source.items) {
        const bool is_none = optional && item.is(Kind::kNone);
        if (!is_none && !item.is(Kind::kValue))
          throw std::invalid_argument("a list of tensors is damaged");
        tensors.values.push_back(is_none ? kNoValue : item.number);
        if (!is_none) require_tensor(item.number);
        if (is_written && !is_none) call.writes.push_back(item.number);
      }
      call.lists.push_back(std::move(tensors));
    } else if (is_written) {
      throw std::invalid_argument("it writes into a number");
    }
  }
  // In training it moves the running mean and variance, of which its schema is silent.
  if (node(i).op == "aten::native_batch_norm") {
    const bool training = call.fixed.size() > 5 && call.fixed[5].isBool() && call.fixed[5].toBool();
    for (const GraphCall::Value& value : call.values) {
      if (training && (value.argument == 3 || value.argument == 4)) {
        call.writes.push_back(value.value);
      }
    }
  }
}

void GraphProgram::add_results(int64_t i, const c10::FunctionSchema& schema) {
  const GraphCall& call = this->call(i);
  const int64_t result = graph_.inputs + i;
  const auto& returns = schema.returns();
  bool optional = false;
  if (returns.size() == 1 && is_list_of_tensors(*returns[0].type(), optional) && !optional) {
    kinds_[to_index(result)] = kList;
  } else {
    const auto is_tensor = [](const c10::Argument& r) {
      return r.type()->kind() == c10::TypeKind::TensorType;
    };
    if (returns.empty() || !std::all_of(returns.begin(), returns.end(), is_tensor)) {
      throw std::invalid_argument("its result is no tensor");
    }
    if (returns.size() > 1) kinds_[to_index(result)] = std::ssize(returns);
  }
  for (const GraphCall::Value& value : call.values) {
    const c10::AliasInfo* given = schema.arguments()[to_index(value.argument)].alias_info();
    const bool by_schema = given != nullptr &&
                           std::any_of(returns.begin(), returns.end(), [&](const c10::Argument& r) {
                             return r.alias_info() != nullptr;
                           });
    if (by_schema || returns_a_view(node(i).op)) join(result, value.value);
  }
  for (const GraphCall::Tensors& list : call.lists) {
    if (schema.arguments()[to_index(list.argument)].alias_info() == nullptr) continue;
    for (const int64_t value : list.values) {
      if (value != kNoValue) join(result, value);
    }
  }
}

int64_t GraphProgram::memory_of(int64_t value) const {
  while (memory_[to_index(value)] != value) value = memory_[to_index(value)];
  return value;
}

// The class of an input is the input: no node makes it.
void GraphProgram::join(int64_t a, int64_t b) {
  const int64_t first = memory_of(a), second = memory_of(b);
  memory_[to_index(std::max(first, second))] = std::min(first, second);
  memory_[to_index(a)] = memory_[to_index(b)] = std::min(first, second);
}

void GraphProgram::require_own_memory() const {
  for (int64_t i = 0; i < nodes(); ++i) {
    for (const int64_t value : call(i).writes) {
      if (memory_of(value) >= graph_.inputs) continue;
      throw InvalidArgument(fmt::format("node {} of the graph, {}, writes into value {}, which is "
                                        "an input or a view of one",
                                        i, node(i).label(), value),
                            path_, "the graph clones what it changes");
    }
  }
}

void GraphProgram::bind(int64_t rows) {
  if (rows == rows_) return;
  rows_ = rows;
  for (GraphCall& call : calls_) {
    for (const GraphCall::Rows& argument : call.rows) {
      const auto& place = call.op->schema().arguments()[to_index(argument.argument)];
      call.fixed[to_index(argument.argument)] = converted(*argument.source, place, rows, device_);
    }
  }
}

// 1 where 32 bits are below p 2^32.
at::Tensor GraphProgram::keep(const GraphNode& node, MaskSource& masks) const {
  std::vector<int64_t> shape;
  for (const GraphArgument& size : node.args[0].items) {
    shape.push_back(size.is(Kind::kRows) ? size.a_row * rows_ + size.number : size.number);
    if (shape.back() < 0) throw std::invalid_argument("a side is negative");
  }
  const double p =
      node.args[1].is(Kind::kFloat) ? node.args[1].real : static_cast<double>(node.args[1].number);
  return masks.keep(shape, static_cast<uint64_t>(p * 0x1p32), node.args[2].text == "bool");
}

void GraphProgram::take_item(const GraphNode& node, std::vector<c10::IValue>& values,
                             int64_t result) const {
  const c10::IValue& source = values[to_index(node.args[0].number)];
  const std::size_t place = to_index(node.args[1].number);
  if (source.isTuple()) {
    values[to_index(result)] = source.toTupleRef().elements().at(place);
    return;
  }
  const auto list = source.toTensorList();
  if (place >= list.size()) throw std::invalid_argument("its list is shorter");
  values[to_index(result)] = list.get(place);
}

// What is written is none of the inputs: the schema's word for it is checked at load, this is its
// memory.
void GraphProgram::check_inputs(const GraphCall& call,
                                const std::vector<c10::IValue>& values) const {
  for (const int64_t value : call.writes) {
    const at::Tensor& written = values[to_index(value)].toTensor();
    for (int64_t i = 0; i < graph_.inputs; ++i) {
      if (!values[to_index(i)].isTensor()) continue;
      if (written.is_alias_of(values[to_index(i)].toTensor())) {
        throw std::invalid_argument("it writes into an input");
      }
    }
  }
}

void GraphProgram::run(int64_t i, std::vector<c10::IValue>& values, MaskSource* masks) {
  const GraphCall& call = this->call(i);
  const int64_t result = graph_.inputs + i;
  if (!call.op) {
    if (node(i).is_item()) return take_item(node(i), values, result);
    values[to_index(result)] = keep(node(i), *masks);
    return;
  }
  for (const GraphCall::Value& value : call.values) {
    if (values[to_index(value.value)].toTensor().defined()) continue;
    throw std::invalid_argument("an argument was not computed");
  }
  if (!call.writes.empty()) check_inputs(call, values);
  const Tf32Products exact(narrow_ && device_.is_cuda());
  if (narrow_) round_factors(call, values);
  if (call.kernel == nullptr || !run_kernel(call, values, result)) {
    run_operator(call, values, result);
  }
  if (call.correct != nullptr) {
    call.correct(values[to_index(call.values.front().value)].toTensor(), values[to_index(result)]);
  }
}

void GraphProgram::round_factors(const GraphCall& call, const std::vector<c10::IValue>& values) {
  rounded_.assign(call.values.size(), {});
  for (std::size_t i = 0; i < call.values.size(); ++i) {
    const GraphCall::Value& value = call.values[i];
    if (value.is_factor) rounded_[i] = rounded_factor(values[to_index(value.value)].toTensor());
  }
}

const c10::IValue& GraphProgram::argument(const GraphCall& call, std::size_t i,
                                          const std::vector<c10::IValue>& values) const {
  return call.values[i].is_factor ? rounded_[i] : values[to_index(call.values[i].value)];
}

bool GraphProgram::run_kernel(const GraphCall& call, std::vector<c10::IValue>& values,
                              int64_t result) {
  arguments_.clear();
  for (const c10::IValue& fixed : call.fixed) arguments_.push_back(&fixed);
  for (std::size_t i = 0; i < call.values.size(); ++i) {
    arguments_[to_index(call.values[i].argument)] = &argument(call, i, values);
  }
  c10::IValue made = call.kernel(arguments_);
  if (made.isNone()) return false;
  values[to_index(result)] = std::move(made);
  return true;
}

void GraphProgram::run_operator(const GraphCall& call, std::vector<c10::IValue>& values,
                                int64_t result) {
  stack_.assign(call.fixed.begin(), call.fixed.end());
  for (std::size_t i = 0; i < call.values.size(); ++i) {
    stack_[to_index(call.values[i].argument)] = argument(call, i, values);
  }
  for (const GraphCall::Tensors& tensors : call.lists) {
    c10::IValue& argument = stack_[to_index(tensors.argument)];
    if (tensors.optional) {
      c10::List<c10::optional<at::Tensor>> list;
      for (const int64_t value : tensors.values) {
        list.push_back(value == kNoValue
                           ? c10::nullopt
                           : c10::optional<at::Tensor>(values[to_index(value)].toTensor()));
      }
      argument = list;
    } else {
      std::vector<at::Tensor> list;
      for (const int64_t value : tensors.values) list.push_back(values[to_index(value)].toTensor());
      argument = std::move(list);
    }
  }
  if (call.guard != nullptr) call.guard(stack_);
  call.op->callBoxed(&stack_);
  if (stack_.size() == 1) {
    values[to_index(result)] = std::move(stack_[0]);
    if (call.is_empty) values[to_index(result)].toTensor().zero_();
  } else {
    values[to_index(result)] = c10::ivalue::Tuple::create(std::move(stack_));
  }
  stack_.clear();
}

}  // namespace hanse
