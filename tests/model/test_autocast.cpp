// Networks in bfloat16 by LibTorch's autocast: the bits of its own operators under it.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "hanse/model/threads.hpp"
#include "loss.hpp"
#include "networks/autocast.hpp"
#include "support.hpp"

namespace hanse {
namespace {

constexpr int64_t kClasses = 3;

using Leaves = std::vector<at::Tensor>;  // in the layout's order
using Pass = std::function<at::Tensor(const Leaves& leaves, const at::Tensor& x)>;

std::unique_ptr<Model> load(Precision precision = Precision::kBfloat16) {
  ModelOptions options = small_options("transformer", "cross-entropy");
  options.precision = precision;
  return make_model(options, {12}, kClasses);
}

Samples some_samples() { return Samples({12}, kClasses, 9, 1, 11); }

// Loss and gradient of the logits that `pass` makes of samples [rows, values].
LossAndGradient by_autocast(const Model& model, const std::vector<float>& row,
                            const Samples& samples, const Pass& pass) {
  Leaves leaves;
  for (const ParameterSlot& slot : model.layout().slots()) {
    leaves.push_back(
        at::from_blob(const_cast<float*>(row.data()) + slot.offset, slot.shape, at::kFloat)
            .clone()
            .requires_grad_());
  }
  const at::Tensor x = at::tensor(samples.features).view({samples.rows, -1});
  at::Tensor z;
  {
    const Autocast factors(at::kCPU);
    z = pass(leaves, x);
    EXPECT_EQ(z.scalar_type(), at::kBFloat16);
    z = z.to(at::kFloat);
  }
  const at::Tensor delta = z.detach().clone(at::MemoryFormat::Contiguous);
  LossAndGradient result;
  result.loss = make_loss("cross-entropy", kClasses)
                    ->loss_and_delta(samples.batch(), delta.data_ptr<float>()) /
                static_cast<double>(samples.rows);
  for (const at::Tensor& part : torch::autograd::grad({z}, leaves, {delta})) {
    EXPECT_EQ(part.scalar_type(), at::kFloat);
    const at::Tensor flat = part.contiguous();
    result.gradient.insert(result.gradient.end(), flat.data_ptr<float>(),
                           flat.data_ptr<float>() + flat.numel());
  }
  return result;
}

void expect_bits(Model& model, const Samples& samples, const Pass& pass) {
  const std::vector<float> row = initial_row(model);
  const LossAndGradient expected = by_autocast(model, row, samples, pass);
  for (int call = 0; call < 3; ++call) {  // an optimizer of graphs would look at the first two
    const LossAndGradient found = loss_and_gradient(model, row, samples.batch());
    EXPECT_EQ(found.loss, expected.loss);
    EXPECT_EQ(found.gradient, expected.gradient);
    const EvaluationSums sums = model.evaluate(row, samples.batch());
    EXPECT_NEAR(sums.loss / static_cast<double>(samples.rows), expected.loss, 1e-6);
  }
}

// Losses and gradients are those of float32 within the rounding to 8 bits, and others.
void expect_narrow(const std::function<std::unique_ptr<Model>(Precision)>& make,
                   const Samples& samples) {
  const auto wide = make(Precision::kFloat32), narrow = make(Precision::kBfloat16);
  const std::vector<float> row = initial_row(*wide);
  const LossAndGradient expected = loss_and_gradient(*wide, row, samples.batch());
  const LossAndGradient found = loss_and_gradient(*narrow, row, samples.batch());
  EXPECT_NE(found.loss, expected.loss);
  EXPECT_NEAR(found.loss, expected.loss, std::ldexp(expected.loss, -7));
  double norm = 0, error = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    norm += std::pow(static_cast<double>(expected.gradient[i]), 2);
    error += std::pow(static_cast<double>(found.gradient[i] - expected.gradient[i]), 2);
  }
  EXPECT_GT(error, 0);
  EXPECT_LE(std::sqrt(error), 0.02 * std::sqrt(norm));
  const double loss = wide->evaluate(row, samples.batch()).loss;
  const double narrow_loss = narrow->evaluate(row, samples.batch()).loss;
  EXPECT_NE(narrow_loss, loss);
  EXPECT_NEAR(narrow_loss, loss, std::ldexp(loss, -7));
}

// The transformer of small_options() by LibTorch's operators: 6 values a token, 2 heads.
at::Tensor transformer_logits(const Leaves& w, const at::Tensor& x) {
  const int64_t rows = x.size(0), length = x.size(1);
  std::vector<float> positions;
  for (int64_t i = 0; i < 6 * length; ++i) {
    const auto t = static_cast<double>(i / 6), even = static_cast<double>(i % 6 - i % 2);
    const double angle = t / std::pow(10000.0, even / 6);
    positions.push_back(static_cast<float>(i % 2 == 0 ? std::sin(angle) : std::cos(angle)));
  }
  const at::Tensor y = at::embedding(w[0], x.to(at::kLong)) * std::sqrt(6.0) +
                       at::tensor(positions).view({length, 6});
  const auto qkv = at::linear(y, w[1], w[2]).view({rows, length, 3, 2, 3}).permute({2, 0, 3, 1, 4});
  const at::Tensor scores = at::matmul(qkv[0] * (1 / std::sqrt(3.0)), qkv[1].transpose(-2, -1));
  const at::Tensor heads = at::matmul(scores.softmax(-1), qkv[2]).transpose(1, 2);
  const at::Tensor attended = at::linear(heads.reshape({rows, length, 6}), w[3], w[4]);
  const at::Tensor z = at::layer_norm(y + attended, {6}, w[9], w[10], 1e-5);
  const at::Tensor fed = at::linear(at::relu(at::linear(z, w[5], w[6])), w[7], w[8]);
  const at::Tensor last = at::layer_norm(z + fed, {6}, w[11], w[12], 1e-5);
  return at::linear(last.mean(-2), w[13], w[14]);
}

TEST(Autocast, ATransformerHasTheBitsOfItsOperators) {
  expect_bits(*load(), some_samples(), transformer_logits);
}

TEST(Autocast, ResultsAreThoseOfFloat32WithinTheirRounding) { expect_narrow(load, some_samples()); }

// A row's next values lie where its last ones did.
TEST(Autocast, NoPassHasTheWeightsOfAnEarlierOne) {
  const Samples samples = some_samples();
  const auto model = load();
  std::vector<float> row = initial_row(*model);
  RandomStream noise = noise_stream();
  for (int step = 0; step < 3; ++step) {
    model->sgd_step(row, samples.batch(), noise, 0.5, 0);
    const double loss = model->evaluate(row, samples.batch()).loss;
    const LossAndGradient found = loss_and_gradient(*model, row, samples.batch());
    const auto other = load();
    const std::vector<float> copy = row;
    EXPECT_EQ(loss, other->evaluate(copy, samples.batch()).loss);
    EXPECT_EQ(found.gradient, loss_and_gradient(*other, copy, samples.batch()).gradient);
  }
}

TEST(Autocast, SummariesNameIt) {
  EXPECT_EQ(product_kernels({.kind = "transformer", .precision = Precision::kBfloat16}, false),
            "LibTorch's autocast");
  EXPECT_EQ(product_kernels({.kind = "graph", .precision = Precision::kBfloat16}, false),
            "LibTorch in float32, of rounded factors");
  const std::string own =
      product_kernels({.kind = "mlp", .precision = Precision::kBfloat16}, false);
  EXPECT_EQ(own.find("LibTorch"), std::string::npos);
  EXPECT_FALSE(own.empty());
  EXPECT_EQ(product_kernels({.kind = "mlp"}, false), "");
}

TEST(Autocast, SummariesNameTensorCoresOnGpus) {
  const std::string cores = "tensor cores, by cuBLAS and cuDNN";
  for (const std::string kind : {"mlp", "resnet18", "transformer", "graph"}) {
    EXPECT_EQ(product_kernels({.kind = kind, .precision = Precision::kBfloat16}, true), cores);
    EXPECT_EQ(product_kernels({.kind = kind, .precision = Precision::kTf32}, true), cores);
    EXPECT_EQ(product_kernels({.kind = kind}, true), "");
  }
}

}  // namespace
}  // namespace hanse
