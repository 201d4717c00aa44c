#include "networks/graphs/graph_arguments.hpp"

#include <algorithm>
#include <stdexcept>

#include <ATen/core/Tensor.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/scalar_tensor.h>
#include <fmt/format.h>

#include "hanse/base/index.hpp"

namespace hanse {

namespace {

using Kind = GraphArgument::Kind;
using Type = c10::TypeKind;

[[noreturn]] void misfit(const c10::Type& type) {
  throw std::invalid_argument(fmt::format("an argument is no {}", type.str()));
}

int64_t number_of_type(const std::string& name) {
  static const std::pair<const char*, at::ScalarType> types[] = {
      {"float32", at::kFloat}, {"float64", at::kDouble}, {"int64", at::kLong}, {"int32", at::kInt},
      {"int16", at::kShort},   {"int8", at::kChar},      {"uint8", at::kByte}, {"bool", at::kBool}};
  for (const auto& [word, type] : types) {
    if (name == word) return static_cast<int64_t>(type);
  }
  throw std::invalid_argument("no type " + name);
}

int64_t number_of_format(const std::string& name) {
  if (name == "preserve") return static_cast<int64_t>(c10::MemoryFormat::Preserve);
  if (name == "channels_last") return static_cast<int64_t>(c10::MemoryFormat::ChannelsLast);
  return static_cast<int64_t>(c10::MemoryFormat::Contiguous);
}

bool is_whole(const GraphArgument& argument) {
  return argument.is(Kind::kInteger) || argument.is(Kind::kRows);
}

int64_t whole(const GraphArgument& argument, const c10::Type& type, int64_t rows) {
  if (!is_whole(argument)) misfit(type);
  return argument.a_row * rows + argument.number;
}

// A number of LibTorch's own, whose kernels trust it: the file has its name.
int64_t named(const GraphArgument& argument, const c10::Type& type) {
  if (type.kind() == Type::ScalarTypeType && argument.is(Kind::kDtype)) {
    return number_of_type(argument.text);
  }
  if (type.kind() == Type::LayoutType && argument.is(Kind::kLayout)) {
    return static_cast<int64_t>(c10::Layout::Strided);
  }
  if (type.kind() == Type::MemoryFormatType && argument.is(Kind::kMemoryFormat)) {
    return number_of_format(argument.text);
  }
  misfit(type);
}

double real(const GraphArgument& argument, const c10::Type& type, int64_t rows) {
  if (argument.is(Kind::kFloat)) return argument.real;
  return static_cast<double>(whole(argument, type, rows));
}

bool truth(const GraphArgument& argument, const c10::Type& type) {
  if (!argument.is(Kind::kBool)) misfit(type);
  return argument.number != 0;
}

c10::IValue scalar(const GraphArgument& argument, const c10::Type& type, int64_t rows) {
  if (argument.is(Kind::kBool)) return argument.number != 0;
  if (is_whole(argument)) return whole(argument, type, rows);
  return real(argument, type, rows);
}

// A number in the place of a tensor, as Python's x + 1 has it.
c10::IValue wrapped(const GraphArgument& argument, const c10::Type& type, int64_t rows) {
  const at::Tensor tensor = is_whole(argument)
                                ? at::scalar_tensor(whole(argument, type, rows), at::kLong)
                                : at::scalar_tensor(real(argument, type, rows), at::kDouble);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

c10::IValue list(const GraphArgument& argument, const c10::ListType& type, int64_t rows) {
  const c10::Type& element = *type.getElementType();
  std::vector<GraphArgument> one;
  if (!argument.is(Kind::kList)) one.push_back(argument);  // of int[2], for both
  const auto& items = argument.is(Kind::kList) ? argument.items : one;
  switch (element.kind()) {
    case Type::IntType:
    case Type::SymIntType: {
      std::vector<int64_t> values;
      for (const GraphArgument& item : items) values.push_back(whole(item, element, rows));
      return values;
    }
    case Type::FloatType: {
      std::vector<double> values;
      for (const GraphArgument& item : items) values.push_back(real(item, element, rows));
      return values;
    }
    case Type::BoolType: {
      c10::List<bool> values;
      for (const GraphArgument& item : items) values.push_back(truth(item, element));
      return values;
    }
    case Type::TensorType:
    case Type::OptionalType: return {};  // values
    default: misfit(type);
  }
}

c10::IValue converted(const GraphArgument& argument, const c10::Type& type, int64_t rows,
                      at::Device device) {
  if (const auto* optional = type.castRaw<c10::OptionalType>()) {
    if (argument.is(Kind::kNone)) return {};
    return converted(argument, *optional->getElementType(), rows, device);
  }
  if (argument.is(Kind::kNone)) misfit(type);
  if (argument.is(Kind::kValue)) {
    if (type.kind() != Type::TensorType) misfit(type);
    return {};
  }
  switch (type.kind()) {
    case Type::TensorType: return wrapped(argument, type, rows);
    case Type::IntType:
    case Type::SymIntType: return whole(argument, type, rows);
    case Type::ScalarTypeType:
    case Type::LayoutType:
    case Type::MemoryFormatType: return named(argument, type);
    case Type::FloatType: return real(argument, type, rows);
    case Type::BoolType: return truth(argument, type);
    case Type::NumberType: return scalar(argument, type, rows);
    case Type::ListType: return list(argument, type.expectRef<c10::ListType>(), rows);
    case Type::DeviceObjType:
      if (argument.is(Kind::kDevice)) return device;
      break;
    case Type::StringType:
      if (argument.is(Kind::kText)) return argument.text;
      break;
    default: break;
  }
  misfit(type);
}

// A list of int[2] has both numbers, or one for both; kernels do not count them.
void require_length(c10::IValue& list, const c10::Argument& argument) {
  const int64_t length = argument.N().value_or(0);
  if (length < 2 || !list.isIntList()) return;
  std::vector<int64_t> numbers = list.toIntVector();
  if (numbers.size() == 1) numbers.resize(to_index(length), numbers[0]);
  const bool is_left_out = numbers.empty() && argument.name() == "stride";  // it is the window's
  if (std::ssize(numbers) != length && !is_left_out) {
    throw std::invalid_argument(
        fmt::format("a list has {} numbers, not {}", numbers.size(), length));
  }
  list = numbers;
}

}  // namespace

c10::IValue converted(const GraphArgument& argument, const c10::Argument& place, int64_t rows,
                      at::Device device) {
  c10::IValue value = converted(argument, *place.real_type(), rows, device);
  require_length(value, place);
  return value;
}

bool holds_rows(const GraphArgument& argument) {
  return argument.is(Kind::kRows) || std::ranges::any_of(argument.items, holds_rows);
}

std::vector<const GraphArgument*> placed(const GraphNode& node, const c10::FunctionSchema& schema) {
  const auto& arguments = schema.arguments();
  std::vector<const GraphArgument*> found(arguments.size(), nullptr);
  if (node.args.size() > arguments.size()) throw std::invalid_argument("it has too many arguments");
  for (std::size_t i = 0; i < node.args.size(); ++i) {
    if (arguments[i].kwarg_only()) throw std::invalid_argument("it has too many arguments");
    found[i] = &node.args[i];
  }
  for (const auto& [name, argument] : node.kwargs) {
    const auto place = schema.argumentIndexWithName(name);
    if (!place || found[to_index(*place)] != nullptr) {
      throw std::invalid_argument("an argument has another name, or comes twice");
    }
    found[to_index(*place)] = &argument;
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] != nullptr || arguments[i].default_value()) continue;
    throw std::invalid_argument(fmt::format("its argument {} is missing", arguments[i].name()));
  }
  return found;
}

}  // namespace hanse
