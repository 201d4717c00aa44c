// Products of graphs in bfloat16: LibTorch's operators on factors that are rounded before.
#include <set>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "networks/graphs/graph_program.hpp"

namespace hanse {
namespace {

using Kind = GraphArgument::Kind;
using Tensors = std::vector<at::Tensor>;

// An operator on the first values of a program, and on numbers behind them.
struct Product {
  std::string op;
  std::vector<std::vector<int64_t>> shapes;  // of its values
  std::vector<GraphArgument> rest = {};
  std::set<std::size_t> factors = {0, 1};
};

GraphArgument integers(const std::vector<int64_t>& numbers) {
  GraphArgument list{.kind = Kind::kList};
  for (const int64_t number : numbers)
    list.items.push_back({.kind = Kind::kInteger, .number = number});
  return list;
}
GraphArgument flag(bool value) { return {.kind = Kind::kBool, .number = value ? 1 : 0}; }
GraphArgument flags(int64_t n) {
  return {.kind = Kind::kList,
          .items = std::vector<GraphArgument>(static_cast<std::size_t>(n), flag(true))};
}

std::vector<Product> products() {
  const GraphArgument none{.kind = Kind::kNone}, one{.kind = Kind::kInteger, .number = 1};
  return {
      {"aten::mm", {{5, 7}, {7, 3}}},
      {"aten::bmm", {{2, 5, 7}, {2, 7, 3}}},
      {"aten::mv", {{5, 7}, {7}}},
      {"aten::dot", {{7}, {7}}},
      {"aten::matmul", {{2, 5, 7}, {7, 3}}},
      {"aten::linear", {{5, 7}, {3, 7}, {3}}},
      {"aten::addmm", {{3}, {5, 7}, {7, 3}}, {}, {1, 2}},
      {"aten::baddbmm", {{2, 5, 3}, {2, 5, 7}, {2, 7, 3}}, {}, {1, 2}},
      {"aten::addbmm", {{5, 3}, {2, 5, 7}, {2, 7, 3}}, {}, {1, 2}},
      {"aten::addmv", {{5}, {5, 7}, {7}}, {}, {1, 2}},
      {"aten::addr", {{5, 3}, {5}, {3}}, {}, {1, 2}},
      {"aten::convolution",
       {{2, 3, 6, 5}, {4, 3, 3, 3}, {4}},
       {integers({1, 1}), integers({1, 1}), integers({1, 1}), flag(false), integers({0, 0}), one}},
      {"aten::convolution_backward",
       {{2, 4, 6, 5}, {2, 3, 6, 5}, {4, 3, 3, 3}},
       {integers({4}), integers({1, 1}), integers({1, 1}), integers({1, 1}), flag(false),
        integers({0, 0}), one, flags(3)},
       {0, 1, 2}},
      {"aten::mul", {{5, 7}, {5, 7}}, {}, {}},
  };
}

Tensors run(const Product& product, const Tensors& given, bool narrow) {
  OperatorGraph graph{.inputs = std::ssize(given)};
  GraphNode node{.op = product.op, .overload = product.op == "aten::mul" ? "Tensor" : ""};
  for (int64_t i = 0; i < graph.inputs; ++i) {
    node.args.push_back({.kind = Kind::kValue, .number = i});
  }
  node.args.insert(node.args.end(), product.rest.begin(), product.rest.end());
  graph.nodes.push_back(node);
  graph.backward = 1;
  GraphProgram program(graph, "net.graph", at::kCPU, narrow);
  program.bind(2);
  std::vector<c10::IValue> values(given.begin(), given.end());
  values.resize(static_cast<std::size_t>(program.values()));
  HostMasks masks;
  program.run(0, values, &masks);
  if (values.back().isTensor()) return {values.back().toTensor()};
  Tensors all;
  for (const c10::IValue& one : values.back().toTupleRef().elements())
    all.push_back(one.toTensor());
  return all;
}

at::Tensor rounded(const at::Tensor& x) { return x.to(at::kBFloat16).to(at::kFloat); }

// A bias, or what is added, is no factor; nor is the delta of which a bias's gradient is the sum.
TEST(GraphProducts, FactorsAloneAreRounded) {
  at::manual_seed(3);
  for (const Product& product : products()) {
    Tensors given, factors;
    for (const auto& shape : product.shapes) {
      given.push_back(at::randn(shape));
      const bool is_factor = product.factors.contains(given.size() - 1);
      factors.push_back(is_factor ? rounded(given.back()) : given.back().clone());
    }
    const Tensors before = {given[0].clone(), given[1].clone()};
    const Tensors found = run(product, given, true), wide = run(product, given, false);
    Tensors expected = run(product, factors, false);
    if (product.op == "aten::convolution_backward") expected[2] = at::sum(given[0], {0, 2, 3});
    ASSERT_EQ(found.size(), expected.size()) << product.op;
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].scalar_type(), at::kFloat) << product.op;
      EXPECT_TRUE(at::equal(found[i], expected[i])) << product.op << " " << i;
    }
    EXPECT_NE(at::equal(found[0], wide[0]), !product.factors.empty()) << product.op;
    EXPECT_TRUE(at::equal(given[0], before[0]) && at::equal(given[1], before[1])) << product.op;
  }
}

}  // namespace
}  // namespace hanse
