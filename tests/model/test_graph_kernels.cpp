// The kernels of graphs against LibTorch's operators.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include "networks/graphs/graph_kernels.hpp"

namespace hanse {
namespace {

using Stack = std::vector<c10::IValue>;

at::Tensor values(at::IntArrayRef sizes, double step = 0.37) {
  const at::Tensor count = at::arange(at::empty(sizes).numel(), at::kFloat);
  return (count * step).sin().mul(2).view(sizes);
}

at::Tensor columns(int64_t from, int64_t to) { return values({6, 20}, 0.83).slice(1, from, to); }

at::Tensor number(double value) {
  const at::Tensor tensor = at::scalar_tensor(value, at::kDouble);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

// None: it leaves the arguments to the operator.
c10::IValue run_kernel(const std::string& name, const Stack& stack) {
  GraphArguments arguments;
  for (const c10::IValue& argument : stack) arguments.push_back(&argument);
  return graph_kernel(name)(arguments);
}

at::Tensor by_kernel(const std::string& name, const Stack& stack) {
  const c10::IValue made = run_kernel(name, stack);
  return made.isNone() ? at::Tensor() : made.toTensor();
}

Stack run_operator(const std::string& name, Stack stack) {
  const std::size_t dot = name.find('.');
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(
      name.substr(0, dot).c_str(), dot == std::string::npos ? "" : name.c_str() + dot + 1);
  op.callBoxed(&stack);
  return stack;
}

at::Tensor by_operator(const std::string& name, const Stack& stack) {
  return run_operator(name, stack).at(0).toTensor();
}

// All results of operators that have several, within 1e-5.
void expect_all_same(const std::string& name, const Stack& stack) {
  SCOPED_TRACE(name);
  const c10::IValue made = run_kernel(name, stack);
  ASSERT_TRUE(made.isTuple());
  const auto& actual = made.toTupleRef().elements();
  const Stack expected = run_operator(name, stack);
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const at::Tensor &a = actual[i].toTensor(), &e = expected[i].toTensor();
    ASSERT_EQ(a.defined(), e.defined());
    if (!a.defined()) continue;
    ASSERT_EQ(a.scalar_type(), e.scalar_type());
    ASSERT_EQ(a.sizes(), e.sizes());
    EXPECT_TRUE(a.allclose(e, 1e-5, 1e-5, /*equal_nan=*/true)) << i << a << e;
  }
}

// A copy of the arguments with their strides, for operators that change the first.
Stack copy_of(const Stack& stack) {
  Stack copy = stack;
  const at::Tensor& first = stack[0].toTensor();
  const at::Tensor memory =
      at::from_blob(first.storage().data(), {static_cast<int64_t>(first.storage().nbytes() / 4)},
                    at::kFloat)
          .clone();
  copy[0] = memory.as_strided(first.sizes(), first.strides(), first.storage_offset());
  return copy;
}

// Bits, or within `error` of the largest value.
void expect_same(const std::string& name, const Stack& stack, double error = 0) {
  SCOPED_TRACE(name);
  const Stack mine = copy_of(stack), theirs = copy_of(stack);
  const at::Tensor actual = by_kernel(name, mine), expected = by_operator(name, theirs);
  ASSERT_TRUE(actual.defined());
  ASSERT_EQ(actual.sizes(), expected.sizes());
  EXPECT_EQ(actual.strides(), expected.strides());
  const bool in_place = name.find("_.") != std::string::npos || name.back() == '_';
  EXPECT_EQ(actual.is_same(mine[0].toTensor()), in_place);
  if (error == 0) {
    EXPECT_TRUE(actual.allclose(expected, 0, 0, /*equal_nan=*/true)) << actual << expected;
  } else {
    EXPECT_LE((actual - expected).abs().max().item<double>(),
              error * expected.abs().max().item<double>());
  }
}

TEST(GraphKernels, OperationsOnElementsHaveTorchsBits) {
  const at::Tensor pair[][2] = {{values({4, 5, 3}), values({4, 5, 3}, 0.7)},
                                {columns(2, 9), columns(11, 18)},
                                {columns(2, 9), values({6, 7})},
                                {values({6, 7}), columns(0, 7)}};
  for (const auto& [a, b] : pair) {
    for (const char* name : {"aten::mul.Tensor", "aten::mul_.Tensor", "aten::div.Tensor"}) {
      expect_same(name, {a, b});
      expect_same(name, {a, number(0.3)});
    }
    for (const char* name : {"aten::add.Tensor", "aten::add_.Tensor", "aten::sub.Tensor"}) {
      expect_same(name, {a, b, 1});
      expect_same(name, {a, number(0.3), 1});
    }
    expect_same("aten::mul.Scalar", {a, 3});
    expect_same("aten::div_.Scalar", {a, 0.9});
    expect_same("aten::neg", {a});
    expect_same("aten::threshold_backward", {a, b, 0});
  }
}

TEST(GraphKernels, FunctionsAndSlopesAreTorchs) {
  for (const char* name : {"aten::sigmoid", "aten::sigmoid_", "aten::tanh", "aten::tanh_"}) {
    expect_same(name, {values({6, 7})}, 1e-6);
    expect_same(name, {columns(3, 10)}, 1e-6);
  }
  for (const char* name : {"aten::sigmoid_backward", "aten::tanh_backward"}) {
    expect_same(name, {values({6, 7}), columns(3, 10)}, 1e-6);
  }
}

TEST(GraphKernels, ReluKeepsWhatIsNoNumber) {
  at::Tensor x = values({3, 7});
  x[1][2] = NAN;
  for (const char* name : {"aten::relu", "aten::relu_"}) {
    expect_same(name, {x});
    expect_same(name, {columns(2, 9)});
  }
}

TEST(GraphKernels, ProductsOfAnyTransposition) {
  const at::Tensor a[] = {values({5, 7}), values({7, 5}).t(), columns(1, 8).slice(0, 0, 5)};
  const at::Tensor b[] = {values({7, 3}, 0.9), values({3, 7}, 0.9).t()};
  for (const at::Tensor& left : a) {
    for (const at::Tensor& right : b) {
      expect_same("aten::mm", {left, right}, 3e-6);
      expect_same("aten::addmm", {values({3}), left, right, 1, 1}, 3e-6);
      expect_same("aten::bmm", {at::stack({left, left * 2}), at::stack({right, right.neg()})},
                  3e-6);
    }
  }
  const at::Tensor many = values({2, 5, 7});
  expect_same("aten::bmm", {many, many.transpose(1, 2)}, 3e-6);
}

TEST(GraphKernels, SumsOfRows) {
  for (const bool keeps : {false, true}) {
    const Stack stack = {values({6, 7}), std::vector<int64_t>{0}, keeps, c10::IValue()};
    expect_same("aten::sum.dim_IntList", stack, 1e-6);
  }
}

TEST(GraphKernels, BatchNormMovesItsMeansAndTakesGradientsBack) {
  for (const at::Tensor& x : {values({5, 3, 4, 7}), values({6, 3})}) {
    for (const bool affine : {true, false}) {
      const auto given = [&](double step) {
        return affine ? c10::IValue(values({3}, step)) : c10::IValue();
      };
      const at::Tensor mean = at::zeros({3}), variance = at::ones({3});
      const Stack stack = {x, given(1), given(2), mean, variance, true, 0.1, 1e-5};
      Stack other = stack;
      other[3] = mean.clone();
      other[4] = variance.clone();
      const Stack saved = run_operator("aten::native_batch_norm", other);
      expect_all_same("aten::native_batch_norm", {x, given(1), given(2), {}, {}, true, 0.1, 1e-5});
      run_kernel("aten::native_batch_norm", stack);
      EXPECT_TRUE(mean.allclose(other[3].toTensor()));
      EXPECT_TRUE(variance.allclose(other[4].toTensor()));
      for (const bool first : {true, false}) {
        const c10::List<bool> wanted({first, affine, affine});
        expect_all_same(
            "aten::native_batch_norm_backward",
            {at::cos(x), x, given(1), mean, variance, saved[1], saved[2], true, 1e-5, wanted});
      }
    }
  }
}

TEST(GraphKernels, MaxPoolingFindsThePlacesOfTheLargest) {
  at::Tensor x = values({2, 3, 7, 8});
  x[0][1][2][3] = NAN;
  x[1][2][0][0] = x[1][2][0][1] = 5;  // the first of equals
  using List = std::vector<int64_t>;
  for (const auto& [window, stride] :
       std::vector<std::pair<List, List>>{{{2, 2}, {2, 2}}, {{3, 2}, {1, 3}}, {{3}, {2}}}) {
    expect_all_same("aten::max_pool2d_with_indices",
                    {x, window, stride, List{0, 0}, List{1, 1}, false});
  }
}

TEST(GraphKernels, ViewsHaveTheMemoryOfTheirArgument) {
  const at::Tensor a = values({4, 6});
  for (const auto& [name, stack] : std::vector<std::pair<std::string, Stack>>{
           {"aten::t", {a}},
           {"aten::transpose.int", {a, 0, -1}},
           {"aten::select.int", {a, -1, 2}},
           {"aten::select.int", {a, 0, -2}},
           {"aten::view", {a, std::vector<int64_t>{2, -1}}},
           {"aten::_unsafe_view", {a, std::vector<int64_t>{24}}}}) {
    expect_same(name, stack);
    EXPECT_TRUE(by_kernel(name, stack).is_alias_of(a)) << name;
  }
  for (const int64_t size : {2, 4}) {
    const Stack stack = {a, size, -1};
    const auto actual = run_kernel("aten::unsafe_split.Tensor", stack).toTensorVector();
    const auto expected = run_operator("aten::unsafe_split.Tensor", stack).at(0).toTensorVector();
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      EXPECT_TRUE(actual[i].equal(expected[i]));
      EXPECT_TRUE(actual[i].is_alias_of(a));
    }
  }
}

TEST(GraphKernels, LeaveOtherArgumentsAlone) {
  const at::Tensor a = values({4, 6});
  const auto left_alone = [](const char* name, const Stack& stack) {
    EXPECT_TRUE(run_kernel(name, stack).isNone()) << name;
  };
  left_alone("aten::mul.Tensor", {a, values({6})});
  left_alone("aten::mul.Tensor", {a.to(at::kDouble), a});
  left_alone("aten::mul_.Tensor", {values({6}), a});
  left_alone("aten::add.Tensor", {a, a, 0.5});
  left_alone("aten::add.Tensor", {a, values({6, 4}).t(), 1});
  left_alone("aten::mul.Tensor", {values({100, 100}), values({100, 100})});
  left_alone("aten::select.int", {a, 1, 6});
  left_alone("aten::select.int", {a, 2, 0});
  left_alone("aten::unsafe_split.Tensor", {a, 0, 0});
  left_alone("aten::mm", {a, a});
  left_alone("aten::mm", {a.slice(1, 0, 6, 2), values({3, 2})});
  left_alone("aten::mm", {a.slice(1, 0, 0), values({0, 2})});
  left_alone("aten::mm", {values({6}).expand({4, 6}), values({6, 2})});
  left_alone("aten::bmm", {values({2, 3, 4}), values({3, 4, 2})});
  left_alone("aten::addmm", {a, a, values({6, 6}), 1, 1});
  left_alone("aten::addmm", {values({6}), a, values({6, 6}), 1, 2});
  left_alone("aten::sum.dim_IntList", {a, std::vector<int64_t>{1}, false, c10::IValue()});
  const at::Tensor x = values({2, 3, 4, 4});
  using List = std::vector<int64_t>;
  const auto pool = [&](const List& window, const List& stride, const List& padding) {
    left_alone("aten::max_pool2d_with_indices", {x, window, stride, padding, List{1, 1}, false});
  };
  pool({2, 2}, {2, 2}, {1, 1});
  pool({5, 2}, {2, 2}, {0, 0});
  pool({2, 2}, {}, {0, 0});
  left_alone("aten::native_batch_norm", {x, values({4}), {}, {}, {}, true, 0.1, 1e-5});
  left_alone("aten::native_batch_norm", {x, {}, {}, {}, {}, false, 0.1, 1e-5});
  left_alone("aten::native_batch_norm_backward", {x,
                                                  x,
                                                  {},
                                                  {},
                                                  {},
                                                  values({3}),
                                                  values({2}),
                                                  true,
                                                  1e-5,
                                                  c10::List<bool>({true, true, true})});
  EXPECT_EQ(graph_kernel("aten::convolution"), nullptr);
}

}  // namespace
}  // namespace hanse
