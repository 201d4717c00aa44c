// Gradients and losses of cohorts in bfloat16 against float64 sums of rounded factors, one client
// after the other.
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "drawn.hpp"
#include "hanse/base/error.hpp"
#include "hanse/model/torch_library.hpp"
#include "model/graph_reference.hpp"
#include "model/narrow/bfloat16_product.hpp"
#include "model/network_spec.hpp"
#include "model/support.hpp"
#include "support/devices.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

constexpr int64_t kClasses = 3, kClients = 2, kBatch = 5;
const std::vector<int64_t> kCounts = {5, 3};

struct Case {
  ModelOptions model;
  std::vector<int64_t> shape;
  bool by_hand = true;
  // The greatest error of a tensor's gradient, in parts of what the rounding changes: float32 sums
  // and float64 ones now and then end on two sides of a tie, and a deep network goes on from there.
  double share = 0.05;
};

Case case_of(const std::string& kind, const std::vector<int64_t>& shape, double share = 0.05) {
  Case c{.model = small_options(kind, "cross-entropy"), .shape = shape, .share = share};
  c.model.embedding = 8;  // 2 heads of 4 values: their scale is a power of two
  c.model.units = 9;
  return c;
}

// What a cohort trains with, on the CPU.
struct Data {
  explicit Data(const Case& c)
      : model(make_model(c.model, c.shape, kClasses)),
        samples(c.shape, kClasses, kClients * kBatch, 1,
                reads_tokens(c.model.kind) ? c.model.vocabulary : 0) {
    RandomStream stream(4, Purpose::kInitialize);
    for (int64_t client = 0; client < kClients; ++client) {
      std::vector<float> row(to_size(model->n_params()));
      model->initialize(row, stream);
      rows.push_back(at::tensor(row));
    }
  }
  std::unique_ptr<Model> model;
  Samples samples;
  std::vector<at::Tensor> rows;  // [P] of each client
};

struct Found {
  at::Tensor gradients;                  // [C, P]
  std::vector<double> losses, in_tests;  // of the batches, and of all samples in evaluation mode
};

Found find(const Case& c, const Data& data, Precision precision, const std::string& device) {
  ModelOptions options = c.model;
  options.precision = precision;
  const auto cohort = torch_library().make_cohort(options, c.shape, kClasses,
                                                  {.device = device,
                                                   .clients = kClients,
                                                   .batch = kBatch,
                                                   .samples = kClients * kBatch,
                                                   .by_hand = c.by_hand});
  cohort->put(0, data.samples.batch());
  const at::Tensor rows = at::stack(data.rows);
  cohort->start({.rows = {rows.data_ptr<float>(), to_size(rows.numel())}});
  std::vector<int64_t> places;
  for (int64_t i = 0; i < kClients * kBatch; ++i) places.push_back(i);
  cohort->put_steps({places, kCounts, std::vector<StepSize>(kClients, {.rate = 0.1F})});
  Found found{.gradients = cohort->gradients(0, true).cpu().clone(),
              .losses = std::vector<double>(kClients)};
  cohort->take_losses(found.losses);
  found.in_tests = cohort->row_losses(std::vector<SampleRange>{{0, kClients * kBatch}});
  return found;
}

at::Tensor layered_logits(const NetworkSpec& spec, const std::vector<at::Tensor>& leaves,
                          at::Tensor x, const ReferenceProducts& products) {
  auto next = leaves.begin();
  for (const ConvolutionStage& stage : spec.stages) {
    x = products.convolve(x, next[0], 1, stage.padding) + next[1].view({-1, 1, 1});
    if (stage.pool) x = at::max_pool2d(x, 2);
    x = at::relu(x);
    next += 2;
  }
  x = x.flatten(1);
  for (std::size_t layer = 0; layer <= spec.hidden.size(); ++layer, next += 2) {
    if (layer > 0) x = at::relu(x);
    x = products.multiply(x, next[0].t()) + next[1];
  }
  return x;
}

at::Tensor logits(const Case& c, const std::vector<at::Tensor>& leaves, const at::Tensor& x,
                  const ReferenceProducts& products) {
  if (c.model.kind == "resnet18") return resnet_logits(leaves, x, c.model.groups, products);
  if (c.model.kind == "lstm") return lstm_logits(leaves, x, products);
  if (c.model.kind == "transformer") return transformer_logits(leaves, x, products);
  return layered_logits(network_spec(c.model, c.shape).value(), leaves, x, products);
}

// The client's tensors in float64.
std::vector<at::Tensor> leaves_of(const Data& data, int64_t client) {
  std::vector<at::Tensor> leaves;
  for (const ParameterSlot& slot : data.model->layout().slots()) {
    leaves.push_back(data.rows[to_size(client)]
                         .narrow(0, slot.offset, slot.size)
                         .view(slot.shape)
                         .to(at::kDouble)
                         .requires_grad_());
  }
  return leaves;
}

// The mean loss of samples [begin, begin + n).
at::Tensor loss_of(const Case& c, const Data& data, const std::vector<at::Tensor>& leaves,
                   int64_t begin, int64_t n, bool narrow) {
  std::vector<int64_t> shape = c.shape;
  shape.insert(shape.begin(), data.samples.rows);
  const at::Tensor x = at::tensor(data.samples.features).view(shape).narrow(0, begin, n);
  const at::Tensor y = at::tensor(data.samples.labels).to(at::kLong).narrow(0, begin, n);
  return at::cross_entropy_loss(logits(c, leaves, x.to(at::kDouble), {narrow}), y);
}

double norm_of(const at::Tensor& x) { return x.norm().item<double>(); }

void expect_client(const Case& c, const Data& data, const Found& found, int64_t client) {
  const std::vector<at::Tensor> leaves = leaves_of(data, client);
  const int64_t n = kCounts[to_size(client)];
  const auto loss = [&](bool narrow) {
    return loss_of(c, data, leaves, client * kBatch, n, narrow);
  };
  const at::Tensor narrow = loss(true), wide = loss(false);
  const auto expected = torch::autograd::grad({narrow}, leaves),
             unrounded = torch::autograd::grad({wide}, leaves);
  const auto& slots = data.model->layout().slots();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const at::Tensor got = found.gradients[client]
                               .narrow(0, slots[i].offset, slots[i].size)
                               .view(slots[i].shape)
                               .to(at::kDouble);
    const double error = norm_of(got - expected[i]), effect = norm_of(unrounded[i] - expected[i]);
    EXPECT_LE(error, c.share * effect + 1e-6 * norm_of(expected[i])) << slots[i].name;
    EXPECT_GT(effect, 0) << slots[i].name;
  }
  const double effect = std::abs((narrow - wide).item<double>());
  EXPECT_NEAR(found.losses[to_size(client)], narrow.item<double>(), c.share * effect + 1e-6);
  const double all = loss_of(c, data, leaves, 0, data.samples.rows, true).item<double>();
  EXPECT_NEAR(found.in_tests[to_size(client)], all, c.share * effect + 1e-5);
}

void expect_rounded_factors(const Case& c) {
  for (const std::string& device : test_devices()) {
    SCOPED_TRACE(c.model.kind + (c.by_hand ? " on " : " by autograd on ") + device);
    const Data data(c);
    const Found narrow = find(c, data, Precision::kBfloat16, device);
    for (int64_t client = 0; client < kClients; ++client) expect_client(c, data, narrow, client);
    EXPECT_TRUE(narrow.gradients.equal(find(c, data, Precision::kBfloat16, device).gradients));
  }
}

TEST(NarrowCohorts, DenseLayersHaveRoundedFactors) {
  for (const bool by_hand : {true, false}) {
    for (const auto& [kind, shape] : {std::pair<std::string, std::vector<int64_t>>{"linear", {37}},
                                      {"mlp", {37}},
                                      {"mlp", {3, 20, 21}}}) {
      Case c = case_of(kind, shape);
      c.by_hand = by_hand;
      expect_rounded_factors(c);
    }
  }
}

TEST(NarrowCohorts, ConvolutionsHaveRoundedFactors) {
  for (const bool by_hand : {true, false}) {
    for (const std::string kind : {"cnn-leaf", "cnn-mcmahan", "lenet"}) {
      Case c = case_of(kind, {2, 13, 14});
      c.by_hand = by_hand;
      expect_rounded_factors(c);
    }
  }
}

TEST(NarrowCohorts, OtherNetworksHaveRoundedFactors) {
  expect_rounded_factors(case_of("lstm", {7}));
  expect_rounded_factors(case_of("transformer", {7}));
  expect_rounded_factors(case_of("resnet18", {3, 13, 10}, 0.3));
}

// A BLAS of two loops: result [m, n], column by column.
void multiply_by_columns(const at::Tensor& a, const at::Tensor& b, const at::Tensor& result) {
  const BlasMatrices of_a = blas_matrices(a), of_b = blas_matrices(b), of_c = blas_matrices(result);
  const auto value = [](const at::Tensor& x, const BlasMatrices& of, int64_t n, int64_t row,
                        int64_t column) {
    const int64_t place = of.turned ? column + row * of.step : row + column * of.step;
    return x.data_ptr<float>()[n * of.stride + place];
  };
  for (int64_t n = 0; n < result.size(0); ++n) {
    for (int64_t i = 0; i < result.numel() / result.size(0); ++i) {
      const int64_t row = i % result.size(2), column = i / result.size(2);
      float sum = 0;
      for (int64_t k = 0; k < a.size(2); ++k)
        sum += value(b, of_b, n, row, k) * value(a, of_a, n, k, column);
      result.data_ptr<float>()[n * of_c.stride + row + column * of_c.step] = sum;
    }
  }
}

// What cublasGemmStridedBatchedEx is told.
TEST(NarrowProducts, BlasFindsMatricesAndTheirTransposes) {
  RandomStream stream(2, Purpose::kData);
  for (const int64_t rows : {1, 3}) {
    for (const int64_t sums : {1, 4}) {
      for (const int64_t columns : {1, 5}) {
        const at::Tensor plain_a = draw(stream, {2, rows, sums}, 1),
                         plain_b = draw(stream, {2, sums, columns}, 1);
        const auto turned = [](const at::Tensor& x) {
          return x.transpose(1, 2).contiguous().transpose(1, 2);
        };
        for (const at::Tensor& a : {plain_a, turned(plain_a)}) {
          for (const at::Tensor& b : {plain_b, turned(plain_b)}) {
            const at::Tensor result = at::zeros({2, rows * columns + 7})
                                          .narrow(1, 0, rows * columns)
                                          .view({2, rows, columns});
            multiply_by_columns(a, b, result);
            EXPECT_TRUE(result.equal(at::bmm(plain_a, plain_b)))
                << rows << " " << sums << " " << columns;
          }
        }
      }
    }
  }
}

// Rows after some steps of a cohort whose clients have ever fewer samples.
at::Tensor stepped(const Case& c, const Data& data, const std::string& device, bool graphs) {
  constexpr int64_t kSteps = 7;
  ModelOptions options = c.model;
  options.precision = Precision::kBfloat16;
  const auto cohort = torch_library().make_cohort(options, c.shape, kClasses,
                                                  {.device = device,
                                                   .clients = kClients,
                                                   .batch = kBatch,
                                                   .samples = kClients * kBatch,
                                                   .starts = {.recorded = graphs}});
  cohort->put(0, data.samples.batch());
  const at::Tensor rows = at::stack(data.rows);
  cohort->start({.rows = {rows.data_ptr<float>(), to_size(rows.numel())}});
  std::vector<int64_t> places, counts;
  std::vector<StepSize> sizes;
  for (int64_t step = 0; step < kSteps; ++step) {
    for (int64_t i = 0; i < kClients * kBatch; ++i) places.push_back((3 * step + i) % 10);
    for (int64_t client = 0; client < kClients; ++client) {
      counts.push_back(step < 5 ? kBatch - client : (client == 0 ? 2 : 0));
      sizes.push_back({.rate = 0.1F});
    }
  }
  cohort->put_steps({places, counts, sizes});
  cohort->steps(0, 5, kClients);
  cohort->steps(5, kSteps - 5, 1);
  return cohort->rows().cpu().clone();
}

TEST(NarrowCohorts, RecordedStepsHaveTheSameBits) {
  for (const std::string& device : test_devices()) {
    for (const Case& c : {case_of("mlp", {37}), case_of("cnn-leaf", {2, 13, 14}),
                          case_of("lstm", {7}), case_of("transformer", {7})}) {
      const Data data(c);
      const at::Tensor one_by_one = stepped(c, data, device, false);
      EXPECT_TRUE(stepped(c, data, device, true).equal(one_by_one)) << c.model.kind;
      EXPECT_FALSE(one_by_one.equal(at::stack(data.rows))) << c.model.kind;
    }
  }
}

TEST(NarrowCohorts, Tf32IsRefusedOnACpu) {
  ModelOptions options = small_options("mlp", "cross-entropy");
  options.precision = Precision::kTf32;
  expect_error<InvalidArgument>(
      [&] { torch_library().make_cohort(options, {7}, kClasses, {.device = "cpu"}); },
      {"tf32", "GPUs", "model.precision", "hint"});
}

}  // namespace
}  // namespace hanse
