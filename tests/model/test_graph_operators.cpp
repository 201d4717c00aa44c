// The operators that a graph may name, with arguments that do not fit: each call is refused or
// answered. What ends the process, or takes no end, is a find.
#include <cstdio>
#include <limits>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "networks/graphs/graph_program.hpp"
#include "networks/graphs/pass_memory.hpp"

namespace hanse {
namespace {

using Kind = GraphArgument::Kind;
using Type = c10::TypeKind;

constexpr int64_t kTries = 40;       // of an operator
constexpr unsigned kLongest_s = 60;  // of all of them: an operator that takes no end

GraphArgument value_of(int64_t number) { return {.kind = Kind::kValue, .number = number}; }
GraphArgument integer(int64_t number) { return {.kind = Kind::kInteger, .number = number}; }

GraphNode node_of(const std::string& op, const std::vector<GraphArgument>& args) {
  return {.op = op, .overload = "", .args = args, .kwargs = {}};
}

std::string text_of(const GraphArgument& argument) {
  std::string text = argument.is(Kind::kValue)   ? "%"
                     : argument.is(Kind::kNone)  ? "null"
                     : argument.is(Kind::kFloat) ? std::to_string(argument.real)
                                                 : argument.text;
  if (argument.is(Kind::kValue) || argument.is(Kind::kInteger) || argument.is(Kind::kBool)) {
    text += std::to_string(argument.number);
  }
  for (const GraphArgument& item : argument.items) text += "[" + text_of(item) + "]";
  return text;
}

// Inputs of every type and of awkward shapes.
std::vector<at::Tensor> inputs() {
  std::vector<at::Tensor> found;
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{4},
                                            {4, 4},
                                            {2, 4, 4},
                                            {2, 4, 4, 4},
                                            {2, 4, 4, 4, 4},
                                            {},
                                            {0},
                                            {1},
                                            {3, 0, 2},
                                            {1, 4}}) {
    found.push_back(at::arange(c10::multiply_integers(shape), at::kFloat).view(shape) / 7 - 1);
  }
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{4}, {4, 4}, {2, 4, 4}, {2, 4, 4, 4}}) {
    found.push_back(at::arange(c10::multiply_integers(shape), at::kLong).view(shape) - 1);
  }
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(),
                    kMost = std::numeric_limits<int64_t>::max();
  found.push_back(at::tensor({kLeast, int64_t{-1}, int64_t{0}, kMost}));
  found.push_back(at::zeros({4}, at::kLong));
  found.push_back(at::zeros({4}, at::kInt));
  found.push_back(at::ones({4}, at::kBool));
  found.push_back(at::ones({4, 4}, at::kBool));
  found.push_back(at::ones({2, 4, 4, 4}, at::kDouble));
  found.push_back(at::ones({4}, at::kByte));
  return found;
}

const std::vector<std::string> kTypes = {"float32", "float64", "int64", "int32",
                                         "int16",   "int8",    "uint8", "bool"};
const std::vector<std::string> kFormats = {"contiguous", "channels_last", "preserve"};
const std::vector<std::string> kWords = {"none", "tanh",  "sum",   "mean", "amax",
                                         "prod", "floor", "trunc", "ij",   ""};

class Arguments {
 public:
  Arguments(RandomStream& random, int64_t values) : random_(random), values_(values) {
    usual_ = random_.below(values_);
  }

  GraphArgument of(const c10::Type& type) {
    if (const auto* optional = type.castRaw<c10::OptionalType>()) {
      return random_.below(3) == 0 ? GraphArgument{} : of(*optional->getElementType());
    }
    switch (type.kind()) {
      case Type::TensorType: return value_of(value());
      case Type::IntType:
      case Type::SymIntType: return whole();
      case Type::ScalarTypeType: return {.kind = Kind::kDtype, .text = one_of(kTypes)};
      case Type::LayoutType: return {.kind = Kind::kLayout};
      case Type::MemoryFormatType: return {.kind = Kind::kMemoryFormat, .text = one_of(kFormats)};
      case Type::FloatType: return real();
      case Type::BoolType: return {.kind = Kind::kBool, .number = random_.below(2)};
      case Type::NumberType: return random_.below(2) == 0 ? whole() : real();
      case Type::StringType: return {.kind = Kind::kText, .text = one_of(kWords)};
      case Type::DeviceObjType: return {.kind = Kind::kDevice};
      case Type::ListType: return list(*type.expectRef<c10::ListType>().getElementType());
      default: return {};
    }
  }

 private:
  // Mostly one tensor again: sizes agree so.
  int64_t value() { return random_.below(3) > 0 ? usual_ : random_.below(values_); }

  GraphArgument whole() {
    constexpr int64_t kHuge = int64_t{1} << 50;
    if (random_.below(12) > 0) return integer(random_.below(7) - 2);
    const int64_t others[] = {4,
                              64,
                              kHuge,
                              -kHuge,
                              std::numeric_limits<int64_t>::max(),
                              std::numeric_limits<int64_t>::min()};
    return integer(others[random_.below(std::ssize(others))]);
  }

  GraphArgument real() {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double others[] = {
        0, 0.5, -1, 1, 2, 1e-5, 1e300, kInfinity, std::numeric_limits<double>::quiet_NaN()};
    return {.kind = Kind::kFloat, .real = others[random_.below(std::ssize(others))]};
  }

  std::string one_of(const std::vector<std::string>& words) {
    return words[to_index(random_.below(std::ssize(words)))];
  }

  GraphArgument list(const c10::Type& element) {
    GraphArgument found{.kind = Kind::kList};
    for (int64_t size = random_.below(5); size > 0; --size) found.items.push_back(of(element));
    return found;
  }

  RandomStream& random_;
  int64_t values_, usual_;
};

// Copies of the inputs, which an operator may write into, views of them with other strides, and the
// operator on these.
OperatorGraph graph_of(const c10::FunctionSchema& schema, int64_t n_inputs, RandomStream& random) {
  OperatorGraph graph{.inputs = n_inputs};
  for (int64_t i = 0; i < n_inputs; ++i) {
    graph.nodes.push_back(node_of("aten::clone", {value_of(i)}));
  }
  const int64_t end = n_inputs + std::ssize(graph.nodes);
  const GraphArgument sides = {.kind = Kind::kList, .items = {integer(4), integer(4)}};
  graph.nodes.push_back(node_of("aten::expand", {value_of(n_inputs), sides}));
  graph.nodes.push_back(node_of("aten::t", {value_of(n_inputs + 1)}));
  Arguments arguments(random, end + 2);
  GraphNode node{.op = schema.name(), .overload = schema.overload_name(), .args = {}, .kwargs = {}};
  for (const c10::Argument& argument : schema.arguments()) {
    const GraphArgument drawn = arguments.of(*argument.type());
    if (argument.kwarg_only()) {
      node.kwargs.emplace_back(argument.name(), drawn);
    } else {
      node.args.push_back(drawn);
    }
  }
  graph.nodes.push_back(node);
  graph.output = n_inputs;
  graph.backward = std::ssize(graph.nodes);
  return graph;
}

// One call; was it answered?
bool answers(const OperatorGraph& graph, const std::vector<at::Tensor>& given) {
  PassMemory memory;
  const PassMemory::Use use(memory);
  try {
    GraphProgram program(graph, "net.graph", at::kCPU, /*narrow=*/false);
    program.bind(2);
    std::vector<c10::IValue> values(to_index(program.values()));
    std::copy(given.begin(), given.end(), values.begin());
    HostMasks masks;
    for (int64_t i = 0; i < program.nodes(); ++i) program.run(i, values, &masks);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

// In a process of its own, which tells its last call to `told`.
[[noreturn]] void try_all(const c10::OperatorName& name, int told) {
  alarm(kLongest_s);
  const c10::InferenceMode no_gradients;
  const std::vector<at::Tensor> given = inputs();
  const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow(name.name.c_str(), name.overload_name.c_str());
  RandomStream random(std::hash<std::string>()(op.schema().name()), Purpose::kData);
  for (int64_t t = 0; t < kTries; ++t) {
    const OperatorGraph graph = graph_of(op.schema(), std::ssize(given), random);
    std::string line;
    for (const GraphArgument& argument : graph.nodes.back().args) line += " " + text_of(argument);
    for (const auto& [word, argument] : graph.nodes.back().kwargs) {
      line += fmt::format(" {}={}", word, text_of(argument));
    }
    line.resize(200, ' ');
    if (pwrite(told, line.data(), line.size(), 0) < 0) std::_Exit(2);
    answers(graph, given);
  }
  std::_Exit(0);
}

bool writes_to_out(const c10::FunctionSchema& schema) {
  return std::ranges::any_of(schema.arguments(), [](const auto& a) { return a.is_out(); });
}

TEST(GraphOperators, RefuseOrAnswerAnyArguments) {
  at::set_num_threads(1);
  std::FILE* const file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  int64_t operators = 0;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (!is_allowed_operator(name.name)) continue;
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || writes_to_out(op->schema())) continue;
    ++operators;
    const pid_t child = fork();
    if (child == 0) try_all(name, fileno(file));
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    std::string last(200, ' ');
    if (status != 0 && pread(fileno(file), last.data(), last.size(), 0) < 0) last = "?";
    EXPECT_EQ(status, 0) << name.name << "." << name.overload_name << ":" << last;
  }
  std::fclose(file);
  EXPECT_GT(operators, 300);
}

TEST(GraphOperators, AnswerArgumentsThatFit) {
  const std::vector<at::Tensor> given = inputs();
  OperatorGraph graph{.inputs = std::ssize(given)};
  graph.nodes.push_back(node_of("aten::relu", {value_of(1)}));
  EXPECT_TRUE(answers(graph, given));
  graph.nodes.push_back(node_of("aten::mm", {value_of(1), value_of(0)}));
  EXPECT_FALSE(answers(graph, given));
}

}  // namespace
}  // namespace hanse
