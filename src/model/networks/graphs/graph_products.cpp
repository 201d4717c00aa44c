#include "networks/graphs/graph_products.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Context.h>

namespace hanse {

namespace {

constexpr const char* kConvolutionBack = "aten::convolution_backward";

// A bias's gradient is a sum of deltas, of which none is a factor.
void sum_of_deltas(const at::Tensor& delta, c10::IValue& result) {
  auto results = result.toTupleRef().elements().vec();
  if (!results.at(2).toTensor().defined()) return;
  std::vector<int64_t> axes;
  for (int64_t axis = 0; axis < delta.dim(); ++axis) {
    if (axis != 1) axes.push_back(axis);
  }
  results[2] = at::sum(delta, axes);
  result = c10::ivalue::Tuple::create(std::move(results));
}

}  // namespace

bool is_factor(const std::string& op, int64_t argument) {
  static const std::map<std::string, std::vector<int64_t>> factors = {
      {"aten::mm", {0, 1}},          {"aten::bmm", {0, 1}},    {"aten::mv", {0, 1}},
      {"aten::dot", {0, 1}},         {"aten::matmul", {0, 1}}, {"aten::linear", {0, 1}},
      {"aten::convolution", {0, 1}}, {"aten::addmm", {1, 2}},  {"aten::addmm_", {1, 2}},
      {"aten::baddbmm", {1, 2}},     {"aten::addbmm", {1, 2}}, {"aten::baddbmm_", {1, 2}},
      {"aten::addbmm_", {1, 2}},     {"aten::addmv", {1, 2}},  {"aten::addmv_", {1, 2}},
      {"aten::addr", {1, 2}},        {"aten::addr_", {1, 2}},  {kConvolutionBack, {0, 1, 2}},
  };
  const auto found = factors.find(op);
  return found != factors.end() && std::ranges::count(found->second, argument) > 0;
}

at::Tensor rounded_factor(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat ? x.to(at::kBFloat16).to(at::kFloat) : x;
}

Tf32Products::Tf32Products(bool on) : changes_(on && !at::globalContext().allowTF32CuBLAS()) {
  if (changes_) at::globalContext().setAllowTF32CuBLAS(true);
}

Tf32Products::~Tf32Products() {
  if (changes_) at::globalContext().setAllowTF32CuBLAS(false);
}

GraphCorrection correction_of(const std::string& op) {
  return op == kConvolutionBack ? sum_of_deltas : nullptr;
}

}  // namespace hanse
