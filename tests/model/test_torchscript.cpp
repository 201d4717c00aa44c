// Networks from files: what the module computes, and that nothing of it outlives a call.
#include <algorithm>
#include <fstream>
#include <limits>

#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>
#include <torch/script.h>

#include "hanse/base/error.hpp"
#include "network_of_file.hpp"
#include "script_file.hpp"
#include "support.hpp"

namespace hanse {
namespace {

ModelOptions script_options(const std::string& name) {
  ModelOptions options = model_options("torchscript", "cross-entropy");
  options.path = script_file(name);
  return options;
}

std::unique_ptr<Model> load_script(const std::string& name, int64_t values = 4) {
  return make_model(script_options(name), {values}, 3);
}

// The gradient, against differences of the samples' mean loss in evaluation.
void expect_differences(Model& model, const std::vector<float>& row, const Samples& samples,
                        const std::vector<float>& gradient) {
  for (std::size_t p = 0; p < row.size(); ++p) {
    constexpr float kStep = 1.0F / 64;
    std::vector<float> above = row, below = row;
    above[p] += kStep;
    below[p] -= kStep;
    const double rise =
        model.evaluate(above, samples.batch()).loss - model.evaluate(below, samples.batch()).loss;
    const auto rows = static_cast<double>(samples.rows);
    EXPECT_NEAR(gradient[p], rise / rows / (2 * static_cast<double>(kStep)), 2e-3);
  }
}

TEST(TorchScript, IsTheBuiltInModelOfTheSameFormula) {
  expect_is_linear(*load_script("linear", 144), 144);
}

TEST(TorchScript, StartsWithTheFile) {
  const auto model = load_script("batch-norm");
  const std::vector<float> row = initial_row(*model);
  EXPECT_EQ(row[0], 1.0F);                             // scale
  EXPECT_FLOAT_EQ(row[4 + 1], 0.5F * std::sin(0.7F));  // weight
  EXPECT_FLOAT_EQ(row[19 + 4], 1.0F);                  // running_var
  EXPECT_FLOAT_EQ(row[19 + 5], 1.0F + 0.5F * std::sin(0.7F));
  ModelOptions options = script_options("batch-norm");
  options.init = ModelInit::kZeros;
  const auto zeros = make_model(options, {4}, 3);
  const std::vector<float> zero_row = initial_row(*zeros);
  EXPECT_EQ(std::count(zero_row.begin(), zero_row.begin() + 19, 0.0F), 19);
  EXPECT_TRUE(std::equal(zero_row.begin() + 19, zero_row.end(), row.begin() + 19));
}

TEST(TorchScript, BuffersLieBehindTheParameters) {
  const ParameterLayout layout = load_script("batch-norm")->layout();
  EXPECT_EQ(layout.n_trainable(), 4 + 12 + 3);
  EXPECT_EQ(layout.n_params(), 19 + 8);
  EXPECT_EQ(layout.slots()[3].name, "running_mean");
  EXPECT_FALSE(layout.slots()[3].trainable);
  ASSERT_EQ(layout.carried().size(), 1U);
  EXPECT_EQ(layout.carried()[0].name, "batches");
  EXPECT_EQ(layout.carried()[0].values, std::vector<int64_t>{5});
}

// running <- (1 - factor) running + factor of the batch, for mean and unbiased variance.
void expect_moved(const std::vector<float>& before, const std::vector<float>& after,
                  const Samples& samples, double factor) {
  for (std::size_t j = 0; j < 4; ++j) {
    double sum = 0, squares = 0;
    const auto n = static_cast<double>(samples.rows);
    for (std::size_t r = 0; r < static_cast<std::size_t>(samples.rows); ++r) {
      sum += static_cast<double>(samples.features[4 * r + j]);
    }
    for (std::size_t r = 0; r < static_cast<std::size_t>(samples.rows); ++r) {
      squares += std::pow(static_cast<double>(samples.features[4 * r + j]) - sum / n, 2);
    }
    const auto moved = [&](std::size_t at, double value) {
      EXPECT_NEAR(after[at], (1 - factor) * static_cast<double>(before[at]) + factor * value, 1e-5);
    };
    moved(19 + j, sum / n);
    moved(23 + j, squares / (n - 1));
  }
}

TEST(TorchScript, OnlyForwardPassesMoveBuffers) {
  const auto model = load_script("batch-norm");
  const Samples samples({4}, 3, 6);
  const auto moved = expect_only_training_moves_buffers(*model, samples);
  expect_moved(initial_row(*model), moved, samples, 0.25);
}

// The factor is that of the file, and one more in training, on every call: the count never goes on.
TEST(TorchScript, IntegersAreCarried) {
  const auto model = load_script("counted");
  const Samples samples({4}, 3, 6);
  const std::vector<float> row = initial_row(*model);
  const LossAndGradient first = loss_and_gradient(*model, row, samples.batch());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(loss_and_gradient(*model, row, samples.batch()).gradient, first.gradient);
  }
  ASSERT_EQ(model->layout().carried().size(), 1U);
  EXPECT_EQ(model->layout().carried()[0].values, std::vector<int64_t>{5});
}

TEST(TorchScript, ConvertsPartsOfSamplesToIntegers) {
  const auto parts = load_script("bytes")->whole_numbers();
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(std::pair(parts[0].first, parts[0].last), std::pair(int64_t{1}, int64_t{3}));
  EXPECT_TRUE(parts[0].hold(255) && !parts[0].hold(256) && !parts[0].hold(0.5F));
  EXPECT_FALSE(parts[0].hold(-1) || parts[0].hold(NAN) || parts[0].hold(INFINITY));
  EXPECT_EQ(std::pair(parts[1].first, parts[1].last), std::pair(int64_t{3}, int64_t{4}));
  EXPECT_TRUE(parts[1].hold(-1e9F) && !parts[1].hold(0.5F) && !parts[1].hold(1e19F));
  EXPECT_TRUE(load_script("dropout")->whole_numbers().empty());
}

TEST(TorchScript, SameBitsOnEveryCallAndInEveryObject) {
  for (const std::string name : {"batch-norm", "dropout", "frozen"}) {
    SCOPED_TRACE(name);
    expect_same_bits([&] { return load_script(name); });
  }
}

TEST(TorchScript, DropoutFollowsTheNoiseStream) {
  const auto model = load_script("dropout");
  const Samples samples({4}, 3, 8);
  const std::vector<float> row = initial_row(*model);
  const LossAndGradient first = loss_and_gradient(*model, row, samples.batch(), 1);
  EXPECT_EQ(first.gradient, loss_and_gradient(*model, row, samples.batch(), 1).gradient);
  EXPECT_NE(first.gradient, loss_and_gradient(*model, row, samples.batch(), 2).gradient);
}

TEST(TorchScript, FrozenParametersStay) { expect_weight_is_frozen(*load_script("frozen")); }

// d/dW of a network that uses W twice, against differences of its loss.
TEST(TorchScript, TiedParametersAreOne) {
  const auto model = load_script("tied", 3);
  ASSERT_EQ(model->n_params(), 9);
  EXPECT_EQ(model->layout().slots()[0].name, "first");
  EXPECT_EQ(model->layout().slots()[0].also, std::vector<std::string>{"second"});
  const Samples samples({3}, 3, 5);
  const std::vector<float> row = initial_row(*model);
  const LossAndGradient found = loss_and_gradient(*model, row, samples.batch());
  expect_differences(*model, row, samples, found.gradient);
}

// Causal attention of LibTorch 1.13's operators, and its gradient.
TEST(TorchScript, AttentionOfNewerTorchIsItsFormula) {
  load_script("linear", 144);  // registers what LibTorch lacks
  const auto model = load_script("attention"), by_hand = load_script("attention-by-hand");
  const Samples samples({4}, 3, 5);
  const std::vector<float> row = initial_row(*model);
  const LossAndGradient found = loss_and_gradient(*model, row, samples.batch());
  const LossAndGradient expected = loss_and_gradient(*by_hand, row, samples.batch());
  EXPECT_NEAR(found.loss, expected.loss, 1e-6);
  expect_close(model->layout(), found.gradient, expected.gradient, 1e-6);
}

// sin(0.7 i + phase)
at::Tensor wave(at::IntArrayRef shape, double phase) {
  const auto places = at::arange(c10::multiply_integers(shape), at::kDouble);
  return (places * 0.7 + phase).sin().to(at::kFloat).view(shape);
}

struct Attention {
  const char* name;
  c10::IValue mask = {};
  bool causal = false;
  c10::IValue scale = {};
  int64_t heads = 2;             // of keys and values
  std::vector<double> of_torch;  // 2.15: the output, and the gradients of q, k and v, weighed
};

TEST(TorchScript, AttentionIsThatOfTorch215WithItsGradients) {
  load_script("linear", 144);
  const auto attention =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::scaled_dot_product_attention", "");
  const float least = -std::numeric_limits<float>::infinity();
  const at::Tensor bools = at::tensor({1, 0, 1, 0, 0, 0, 1, 1, 0}).view({3, 3}).to(at::kBool);
  const at::Tensor floats =
      at::tensor({0.5F, -1.0F, 0.0F, 2.0F, 0.0F, -0.25F, 0.0F, least, 1.0F}).view({3, 3});
  for (const Attention& c :
       {Attention{.name = "plain", .of_torch = {9.43114281, 8.31846333, 8.28039646, -9.08501434}},
        {.name = "causal",
        .causal = true,
        .of_torch = {10.0792179, 4.0973053, 4.10397005, -14.6326656}},
        {.name = "scale",
        .scale = 0.3,
        .of_torch = {6.63795853, 6.15076685, 6.12239361, -6.52484703}},
        {.name = "bools",
        .mask = bools,
        .of_torch = {6.03979969, 0.112159207, 0.162171617, -5.06876087}},
        {.name = "floats",
        .mask = floats,
        .of_torch = {10.2488766, 3.56515861, 3.5418458, -7.61755276}},
        {.name = "grouped",
        .heads = 1,
        .of_torch = {10.7053986, 5.76554108, 5.42362118, 3.14229488}}}) {
    SCOPED_TRACE(c.name);
    std::vector<at::Tensor> leaves = {wave({2, 2, 3, 4}, 0), wave({2, c.heads, 3, 4}, 1),
                                      wave({2, c.heads, 3, 5}, 2)};
    for (at::Tensor& leaf : leaves) leaf.requires_grad_();
    torch::jit::Stack stack = {leaves[0], leaves[1], leaves[2], c.mask,
                               0.0,       c.causal,  c.scale,   c.heads == 1};
    attention.callBoxed(&stack);
    const at::Tensor sum = (stack[0].toTensor() * wave({2, 2, 3, 5}, 3)).sum();
    EXPECT_NEAR(sum.item<double>(), c.of_torch[0], 1e-5);
    sum.backward();
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const at::Tensor weighed = leaves[i].grad() * wave(leaves[i].sizes(), 0.5);
      EXPECT_NEAR(weighed.sum().item<double>(), c.of_torch[i + 1], 1e-5) << i;
    }
  }
}

TEST(TorchScript, PositionsHaveLabelsOfTheirOwn) {
  const LabelForm form(3, 5);
  const Samples samples({5}, form, 4);
  const auto first = make_model(script_options("positions-first"), {5}, form);
  const auto last = make_model(script_options("positions"), {5}, form);
  const std::vector<float> row = initial_row(*last);
  const LossAndGradient found = loss_and_gradient(*last, row, samples.batch());
  const LossAndGradient other = loss_and_gradient(*first, row, samples.batch());
  EXPECT_NEAR(found.loss, other.loss, 1e-6);
  expect_close(last->layout(), found.gradient, other.gradient, 1e-6);
  expect_differences(*last, row, samples, found.gradient);
  EXPECT_EQ(first->evaluate(row, samples.batch()).correct,
            last->evaluate(row, samples.batch()).correct);
}

TEST(TorchScript, EachModeMayHaveAGraphOfItsOwn) {
  const auto model = load_script("both-modes");
  const Samples samples({4}, 3, 8);
  const std::vector<float> row = initial_row(*model);
  EXPECT_NE(loss_and_gradient(*model, row, samples.batch(), 1).loss,
            loss_and_gradient(*model, row, samples.batch(), 2).loss);
  EXPECT_EQ(model->evaluate(row, samples.batch()).loss, model->evaluate(row, samples.batch()).loss);
}

TEST(TorchScript, ASoftmaxAtTheEndIsTold) {
  testing::internal::CaptureStderr();
  load_script("softmax");
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("warning: the network ends with softmax"), std::string::npos) << told;
  testing::internal::CaptureStderr();
  load_script("softmax-turned");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("ends with softmax"), std::string::npos);
  testing::internal::CaptureStderr();
  load_script("dropout");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

std::string refusal(const ModelOptions& options, const std::vector<int64_t>& shape,
                    int64_t classes = 3) {
  try {
    make_model(options, shape, classes);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(TorchScript, ErrorsAreOneLineThatNamesTheFile) {
  struct BadFile {
    std::string name;
    std::vector<int64_t> shape;
    int64_t classes;
    std::string part;
  };
  for (const BadFile& bad :
       {BadFile{"double", {4}, 3, "parameter weight is Double, not Float"},
        {"half", {4}, 3, "parameter weight is Half, not Float"},
        {"no-parameters", {4}, 3, "no parameters to train"},
        {"detached", {4}, 3, "does not depend on its parameters"},
        {"integers", {4}, 3, "for 2 samples is Long [2, 3], not Float [2, 3]"},
        {"two-outputs", {4}, 3, "not a tensor"},
        {"two-outputs", {4}, 3, "hint: return the logits alone, such as output[0]"},
        {"dictionary", {4}, 3, "hint: return the logits alone, such as output['logits']"},
        {"two-inputs", {4}, 3, "hint: forward gets one tensor: let a module around yours split it"},
        {"tokens", {4}, 3, "hint: samples are float32: call x.long() on tokens"},
        {"signals", {1, 1, 8}, 3, "hint: conv1d takes samples [channels, length]: give data.shape"},
        {"frozen-dropout", {4}, 3, "training and evaluation are the same to dropout"},
        {"late-dropout", {4}, 3, "training and evaluation are the same to dropout"},
        {"cumulative", {4}, 3, "batch norm has a cumulative mean"},
        {"frozen-norm", {4}, 3, "training and evaluation are the same to batch_norm"},
        {"frozen-norm", {4}, 3, "hint: torch.jit.script(model), or "},
        {"one-batch", {4}, 3, "takes no float32 samples [3, 4]"},
        {"dropout", {4}, 10, "is Float [2, 3], not Float [2, 10]"},
        {"dropout", {5}, 3, "takes no float32 samples [2, 5]"},
        {"linear", {1, 28, 28}, 3, "takes no float32 samples [2, 1, 28, 28]"}}) {
    const std::string message = refusal(script_options(bad.name), bad.shape, bad.classes);
    EXPECT_NE(message.find(bad.part), std::string::npos) << bad.name << ": " << message;
    EXPECT_NE(message.find("/" + bad.name + ".pt"), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(TorchScript, FilesThatAreNone) {
  ModelOptions options = script_options("dropout");
  options.path = "nowhere.pt";
  EXPECT_NE(refusal(options, {4}).find("no such file: nowhere.pt"), std::string::npos);
  options.path = script_file("linear") + ".txt";
  std::ofstream(options.path) << "no archive\n";
  EXPECT_NE(refusal(options, {4}).find("no TorchScript: it is no zip file"), std::string::npos);
  EXPECT_EQ(refusal(options, {4}).find('\n'), std::string::npos);
  options = script_options("dropout");
  options.init = ModelInit::kUniform;
  EXPECT_NE(refusal(options, {4}).find("starts from its file"), std::string::npos);
}

}  // namespace
}  // namespace hanse
