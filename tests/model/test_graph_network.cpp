// model.kind = graph: what a graph computes, and that it changes nothing but what it made.
#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "hanse/base/error.hpp"
#include "network_of_file.hpp"
#include "support.hpp"
#include "support/errors.hpp"
#include "support/graph_file.hpp"

namespace hanse {
namespace {

std::unique_ptr<Model> load(const GraphText& graph, const std::vector<int64_t>& shape = {4},
                            const LabelForm& labels = 3,
                            Precision precision = Precision::kFloat32) {
  ModelOptions options = model_options("graph", "cross-entropy");
  options.path = written(graph);
  options.precision = precision;
  return make_model(options, shape, labels);
}

void expect_refused(const GraphText& graph, std::initializer_list<std::string> parts,
                    const std::vector<int64_t>& shape = {4}, const LabelForm& labels = 3) {
  expect_error<InvalidArgument>([&] { load(graph, shape, labels); }, parts);
  expect_error<InvalidArgument>([&] { load(graph, shape, labels); }, {".graph"});
}

TEST(Graph, IsTheBuiltInModelOfTheSameFormula) { expect_is_linear(*load(linear_graph()), 4); }

// Whose factors Hanse's own kernels round.
TEST(Graph, InBfloat16ItIsTheBuiltInModelOfTheSameFormula) {
  ModelOptions options = model_options("linear", "cross-entropy");
  options.precision = Precision::kBfloat16;
  const auto linear = make_model(options, {4}, 3);
  const auto graph = load(linear_graph(), {4}, 3, Precision::kBfloat16);
  const auto wide = load(linear_graph());
  const Samples samples({4}, 3, 9);
  const std::vector<float> row = initial_row(*linear);
  const LossAndGradient found = loss_and_gradient(*graph, row, samples.batch());
  const LossAndGradient expected = loss_and_gradient(*linear, row, samples.batch());
  EXPECT_NEAR(found.loss, expected.loss, 1e-6);
  expect_close(linear->layout(), found.gradient, expected.gradient, 1e-6);
  EXPECT_NE(found.gradient, loss_and_gradient(*wide, row, samples.batch()).gradient);
  EXPECT_NEAR(graph->evaluate(row, samples.batch()).loss,
              linear->evaluate(row, samples.batch()).loss, 1e-5);
  expect_step_is_update(*graph, samples.batch(), 0.25);
}

TEST(Graph, StartsWithTheFile) {
  const auto model = load(norm_graph());
  const ParameterLayout& layout = model->layout();
  EXPECT_EQ(layout.n_trainable(), 12 + 3 + 4);
  EXPECT_EQ(layout.n_params(), 19 + 8);
  EXPECT_EQ(layout.slots()[2].name, "scale");
  EXPECT_EQ(layout.slots()[3].name, "running_mean");
  ASSERT_EQ(layout.carried().size(), 1U);
  EXPECT_EQ(layout.carried()[0].values, std::vector<int64_t>{5});
  std::vector<float> row = initial_row(*model);
  EXPECT_EQ(row[0], spread_values(1)[0]);
  EXPECT_EQ(row[15], 1.0F);
  EXPECT_EQ(row[19 + 2], -1.0F);
  model->start_from_zeros();
  row = initial_row(*model);
  EXPECT_EQ(std::count(row.begin(), row.begin() + 19, 0.0F), 19);
  EXPECT_EQ(row[19 + 2], -1.0F);
}

// The gradient of the loss in training, against differences of it.
void expect_differences(Model& model, const Samples& samples, double tolerance) {
  const std::vector<float> row = initial_row(model);
  const LossAndGradient found = loss_and_gradient(model, row, samples.batch());
  for (std::size_t p = 0; p < static_cast<std::size_t>(model.layout().n_trainable()); ++p) {
    constexpr float kStep = 1.0F / 64;
    std::vector<float> above = row, below = row;
    above[p] += kStep;
    below[p] -= kStep;
    const double rise = loss_and_gradient(model, above, samples.batch()).loss -
                        loss_and_gradient(model, below, samples.batch()).loss;
    EXPECT_NEAR(found.gradient[p], rise / (2 * static_cast<double>(kStep)), tolerance) << p;
  }
}

TEST(Graph, ItsGradientIsThatOfTheLoss) {
  const Samples samples({4}, 3, 8);
  expect_differences(*load(norm_graph()), samples, 2e-3);
  expect_differences(*load(dropout_graph()), samples, 2e-3);
}

// Autograd has the way back of its operators.
TEST(Graph, BatchNormIsThatOfLibTorch) {
  const auto graph = load(norm_graph());
  const Samples samples({4}, 3, 6);
  const std::vector<float> row = initial_row(*graph);
  const LossAndGradient found = loss_and_gradient(*graph, row, samples.batch());
  std::vector<at::Tensor> w;  // weight, bias, scale, running mean and variance
  for (const ParameterSlot& slot : graph->layout().slots()) {
    w.push_back(at::tensor(row).narrow(0, slot.offset, slot.size).view(slot.shape).clone());
    if (slot.trainable) w.back().requires_grad_();
  }
  const at::Tensor x = at::tensor(samples.features).view({6, 4});
  const at::Tensor labels = at::tensor(samples.labels).to(at::kLong);
  const auto loss = [&](bool training) {
    const at::Tensor y = at::batch_norm(x, w[2], {}, w[3], w[4], training, 0.25, 1e-5, false);
    return at::cross_entropy_loss(at::linear(y, w[0], w[1]), labels);
  };
  EXPECT_NEAR(graph->evaluate(row, samples.batch()).loss / 6, loss(false).item<double>(), 1e-5);
  const at::Tensor expected = loss(true);
  EXPECT_NEAR(found.loss, expected.item<double>(), 1e-6);
  std::vector<float> gradient, moved = row;
  for (const at::Tensor& part : torch::autograd::grad({expected}, {w[0], w[1], w[2]})) {
    const at::Tensor flat = part.contiguous();
    gradient.insert(gradient.end(), flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
  }
  gradient.resize(row.size());
  expect_close(graph->layout(), found.gradient, gradient, 1e-5);
  loss_and_gradient(*graph, row, samples.batch());
  graph->move_buffers(moved);
  EXPECT_NE(moved, row);
  std::vector<float> buffers(row.begin(), row.begin() + 19);
  for (const at::Tensor& buffer : {w[3], w[4]}) {
    buffers.insert(buffers.end(), buffer.data_ptr<float>(), buffer.data_ptr<float>() + 4);
  }
  expect_close(graph->layout(), moved, buffers, 1e-6);
}

// The variance of one value would be no number.
TEST(Graph, BatchNormOfOneValueIsRefused) {
  const auto graph = load(norm_graph());
  const Samples samples({4}, 3, 1);
  const std::vector<float> row = initial_row(*graph);
  EXPECT_TRUE(std::isfinite(graph->evaluate(row, samples.batch()).loss));
  expect_error<Error>([&] { loss_and_gradient(*graph, row, samples.batch()); },
                      {"a batch of 1 at aten::native_batch_norm", "more than 1 value per channel"});
}

TEST(Graph, OnlyTrainingMovesBuffers) {
  expect_only_training_moves_buffers(*load(norm_graph()), Samples({4}, 3, 6));
}

TEST(Graph, AStepThatStoresNoGradientIsTheSameStep) {
  for (const GraphText& graph : {linear_graph(), norm_graph(), dropout_graph()}) {
    const auto model = load(graph);
    const Samples samples({4}, 3, 6);
    std::vector<float> row = initial_row(*model);
    const LossAndGradient found = loss_and_gradient(*model, row, samples.batch());
    std::vector<float> expected = row;
    for (std::size_t p = 0; p < static_cast<std::size_t>(model->layout().n_trainable()); ++p) {
      expected[p] = row[p] - 0.5F * found.gradient[p];
    }
    model->move_buffers(expected);
    RandomStream noise = noise_stream();
    model->sgd_step(row, samples.batch(), noise, 0.5, 0);
    EXPECT_EQ(row, expected);
  }
}

TEST(Graph, SameBitsOnEveryCallAndInEveryObject) {
  for (const GraphText& graph : {linear_graph(), norm_graph(), dropout_graph()}) {
    expect_same_bits([&] { return load(graph); });
  }
}

// x = 1 and W = 1 but for the bias make z the number of kept entries of a sample.
TEST(Graph, KeepHasItsLawAndItsBits) {
  const auto model = load(dropout_graph());
  const int64_t rows = 400;
  std::vector<float> row(15, 0.0F), features(static_cast<std::size_t>(rows * 4), 1.0F);
  const std::vector<int32_t> labels(static_cast<std::size_t>(rows), 0);
  const Batch batch{.features = features.data(), .labels = labels.data(), .rows = rows};
  // With W = 0 the deltas are (1/3 - [c = y]) / n: the gradient of W[1] is sum keep / (3 n).
  const LossAndGradient found = loss_and_gradient(*model, row, batch);
  RandomStream noise = noise_stream();
  RandomStream masks(noise.next(), Purpose::kDropout);
  std::vector<double> kept(4, 0.0);
  std::vector<uint32_t> bits(static_cast<std::size_t>(rows * 4));
  for (std::size_t begin = 0; begin < bits.size(); begin += 1024) {
    const std::size_t size = std::min<std::size_t>(1024, bits.size() - begin);
    masks.fill({reinterpret_cast<uint8_t*>(bits.data() + begin), size * 4});
  }
  for (std::size_t i = 0; i < bits.size(); ++i) kept[i % 4] += bits[i] < 0xC0000000U ? 1 : 0;
  for (std::size_t j = 0; j < 4; ++j) {
    EXPECT_NEAR(found.gradient[4 + j], kept[j] / 3 / static_cast<double>(rows), 1e-5) << j;
    EXPECT_NEAR(kept[j] / static_cast<double>(rows), 0.75, 0.08);
  }
  EXPECT_NE(loss_and_gradient(*model, row, batch, 2).gradient, found.gradient);
  const auto all = load(dropout_graph("1")), none = load(dropout_graph("0"));
  const auto plain = load(linear_graph());
  EXPECT_EQ(loss_and_gradient(*all, row, batch).gradient,
            loss_and_gradient(*plain, row, batch).gradient);
  const auto nothing = loss_and_gradient(*none, row, batch).gradient;
  EXPECT_EQ(std::count(nothing.begin(), nothing.begin() + 12, 0.0F), 12);
}

TEST(Graph, FrozenParametersStay) { expect_weight_is_frozen(*load(linear_graph("false"))); }

// z = x W^T + b at each position, [rows, positions, 3].
GraphText positions_graph() {
  GraphText graph;
  graph.sample = "[5]";
  graph.output = "[5,3]";
  graph.add_parameter("weight", "[1,3]", {0.5F, -1, 0.25F});
  graph.evaluation = graph_nodes({graph_node("aten::unsqueeze", R"({"v":1},2)"),              // 2
                                  graph_node("aten::mul", R"({"v":2},{"v":0})", "Tensor")});  // 3
  graph.evaluation_output = "3";
  graph.training = graph_nodes({graph_node("aten::unsqueeze", R"({"v":1},2)"),               // 3
                                graph_node("aten::mul", R"({"v":3},{"v":0})", "Tensor"),     // 4
                                graph_node("aten::mul", R"({"v":3},{"v":2})", "Tensor"),     // 5
                                graph_node("aten::sum", R"({"v":5},[0,1])", "dim_IntList"),  // 6
                                graph_node("aten::view", R"({"v":6},[1,3])")});              // 7
  graph.outputs = R"({"output":4,"gradients":[7],"buffers":[]})";
  return graph;
}

TEST(Graph, PositionsHaveLabelsOfTheirOwn) {
  const LabelForm form(3, 5);
  const auto model = load(positions_graph(), {5}, form);
  expect_differences(*model, Samples({5}, form, 4), 2e-3);
  expect_refused(positions_graph(), {"output for a sample is [5, 3], not [3]"}, {5});
}

TEST(Graph, TiedParametersHaveTheirFurtherNames) {
  GraphText graph = linear_graph();
  graph.parameters.replace(graph.parameters.find("true"), 4, R"(true,"also":["head.weight"])");
  const auto model = load(graph);
  EXPECT_EQ(model->n_params(), 15);
  EXPECT_EQ(model->layout().slots()[0].also, std::vector<std::string>{"head.weight"});
}

// Its place in a step gets zeros, and decay.
TEST(Graph, AParameterWithoutAGradientGetsZeros) {
  GraphText graph = linear_graph();
  graph.outputs = R"({"output":5,"gradients":[null,8],"buffers":[]})";
  const auto model = load(graph);
  const Samples samples({4}, 3, 8);
  const std::vector<float> row = initial_row(*model);
  const LossAndGradient found = loss_and_gradient(*model, row, samples.batch());
  EXPECT_EQ(std::count(found.gradient.begin(), found.gradient.begin() + 12, 0.0F), 12);
  std::vector<float> stepped = row;
  RandomStream noise = noise_stream();
  model->sgd_step(stepped, samples.batch(), noise, 0.5, 0.5);
  EXPECT_EQ(stepped[0], row[0] * 0.75F);
}

// The update of W comes before b's node in the file, which reads W once more.
TEST(Graph, AParameterStaysUntilNobodyReadsIt) {
  GraphText graph = linear_graph();
  graph.training +=
      "," + graph_node("aten::sum", graph_value(4) + ",[0]", "dim_IntList")  // 9: of W
      + "," + graph_node("aten::add", graph_value(8) + "," + graph_value(9), "Tensor");
  graph.outputs = R"({"output":5,"gradients":[7,10],"buffers":[]})";
  const auto model = load(graph);
  const Samples samples({4}, 3, 8);
  const std::vector<float> row = initial_row(*model);
  const LossAndGradient found = loss_and_gradient(*model, row, samples.batch());
  std::vector<float> stepped = row;
  RandomStream noise = noise_stream();
  model->sgd_step(stepped, samples.batch(), noise, 1, 0);
  for (std::size_t p = 0; p < 15; ++p) EXPECT_EQ(stepped[p], row[p] - found.gradient[p]) << p;
}

TEST(Graph, ErrorsAreOneLineThatNamesTheFile) {
  expect_refused(linear_graph(), {"takes samples [4], and the data has [5]"}, {5});
  expect_refused(linear_graph(), {"output for a sample is [3], not [7]", "one logit a class"}, {4},
                 7);
  GraphText graph = linear_graph();
  const auto training = [&](const std::vector<std::string>& more) {
    graph = linear_graph();
    graph.training += "," + graph_nodes(more);  // 9, 10, ...
  };
  training({graph_node("aten::relu_", graph_value(0))});
  expect_refused(graph, {"node 5 of the graph, aten::relu_, writes into value 0"});
  training({graph_node("aten::relu_", graph_value(2))});
  expect_refused(graph, {"writes into value 2, which is an input"});
  training({graph_node("aten::relu_", graph_value(4))});  // a view of W
  expect_refused(graph, {"writes into value 4, which is an input or a view of one"});
  training({graph_node("aten::_unsafe_view", graph_value(0) + ",[12]"),
            graph_node("aten::zero_", graph_value(9))});
  expect_refused(graph, {"writes into value 9"});
  training({graph_node("aten::split", graph_value(0) + ",1", "Tensor"),
            graph_node("item", graph_value(9) + ",0"), graph_node("aten::zero_", graph_value(10))});
  expect_refused(graph, {"writes into value 10"});
  training({graph_node("aten::copy_", graph_value(3) + "," + graph_value(3))});
  expect_refused(graph, {"writes into value 3"});
  training({graph_node("aten::add", graph_value(7) + "," + graph_value(7), "out")});
  expect_refused(graph, {"node 5 of the graph, aten::add.out"});
  training({graph_node("aten::t", graph_value(7), "Tensor")});
  expect_refused(graph, {"aten::t.Tensor: LibTorch ", "has no such operator"});
  training({graph_node("aten::mm", graph_value(7))});
  expect_refused(graph, {"aten::mm: its argument mat2 is missing"});
  training({graph_node("aten::t", graph_value(7) + ",1")});
  expect_refused(graph, {"aten::t: it has too many arguments"});
  training({graph_node("aten::unsqueeze", graph_value(7) + ",1.5")});
  expect_refused(graph, {"aten::unsqueeze: an argument is no int"});
  training({graph_node("aten::unsqueeze", graph_value(7) + ",null")});
  expect_refused(graph, {"an argument is no int"});
  training({graph_node("aten::split", graph_value(7) + ",1", "Tensor"),
            graph_node("aten::t", graph_value(9))});
  expect_refused(graph, {"aten::t: value 9 is several tensors"});
  training({graph_node("item", graph_value(7) + ",0")});
  expect_refused(graph, {"item: value 7 has no item 0"});
}

TEST(Graph, WhatItsPassesShowIsRefused) {
  GraphText graph = linear_graph();
  graph.evaluation_output = "3";
  expect_refused(graph, {"fails on a batch of 2", "its output is Float [4, 3], not Float [2, 3]"});
  graph = linear_graph();
  graph.outputs = R"({"output":5,"gradients":[6,8],"buffers":[]})";
  expect_refused(graph, {"weight is Float [3, 2], not Float [3, 4]"});
  graph = linear_graph();
  graph.outputs = R"({"output":5,"gradients":[0,8],"buffers":[]})";
  expect_refused(graph, {"a gradient of the graph is a parameter"});
  graph = linear_graph();
  graph.training += "," + graph_node("aten::full", "[2000000000,2000000000,2],1.0") + "," +
                    graph_node("aten::sum", graph_value(9) + ",[0,1]", "dim_IntList") + "," +
                    graph_node("aten::add", graph_value(8) + "," + graph_value(10), "Tensor");
  graph.outputs = R"({"output":5,"gradients":[7,11],"buffers":[]})";
  expect_refused(graph, {"fails on a batch of 2 at aten::full"});
  graph.training.replace(graph.training.find("2000000000,2000000000"), 21, "1000000,1000000");
  expect_refused(graph, {"at aten::full", "GB of memory"});
}

// Arguments that LibTorch's kernels would trust.
TEST(Graph, WhatKernelsWouldTrustIsChecked) {
  GraphText graph = norm_graph();
  const std::string samples = R"(aten::native_batch_norm","overload":"","args":[{"v":6})";
  graph.training.replace(graph.training.find(samples) + samples.size() - 2, 1, "1");
  expect_refused(graph, {"aten::native_batch_norm"});
  graph = linear_graph();
  graph.constants = "\"places\"";
  graph.add("places", "I64", "[1,1,1,1]", number_bytes(100, 8));
  // W (0), b (1), places (2), x (3), delta (4)
  graph.evaluation = graph_nodes({graph_node("aten::t", graph_value(0)),
                                  graph_node("aten::addmm", R"({"v":1},{"v":3},{"v":4})")});
  graph.evaluation_output = "5";
  graph.training =
      graph_nodes({graph_node("aten::t", graph_value(0)),
                   graph_node("aten::addmm", R"({"v":1},{"v":3},{"v":5})"),
                   graph_node("aten::ones", "[1,1,2,2]"), graph_node("aten::ones", "[1,1,1,1]"),
                   graph_node("aten::max_pool2d_with_indices_backward",
                              R"({"v":8},{"v":7},[2,2],[2,2],[0,0],[1,1],false,{"v":2})"),
                   graph_node("aten::sum", R"({"v":9})"),
                   graph_node("aten::sum", graph_value(4) + ",[0]", "dim_IntList"),
                   graph_node("aten::mul", R"({"v":11},{"v":10})", "Tensor")});
  graph.outputs = R"({"output":6,"gradients":[null,12],"buffers":[]})";
  expect_refused(graph, {"aten::max_pool2d_with_indices_backward: its arguments do not fit"});
}

TEST(Graph, HasNoHessian) {
  const auto model = load(linear_graph());
  EXPECT_FALSE(model->has_hessian());
  EXPECT_EQ(model->why_no_hessian(), "and a graph has first derivatives alone");
  ModelOptions options = model_options("graph", "cross-entropy");
  options.path = written(linear_graph());
  options.init = ModelInit::kUniform;
  expect_error<InvalidArgument>([&] { make_model(options, {4}, 3); }, {"starts from its file"});
}

}  // namespace
}  // namespace hanse
