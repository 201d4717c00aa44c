// Losses of representations against float64, and against differences in every network.
#include <cmath>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "hanse/base/error.hpp"
#include "hanse/model/distillation.hpp"
#include "support.hpp"
#include "support/errors.hpp"
#include "support/hidden_graph.hpp"

namespace hanse {
namespace {

constexpr int64_t kRows = 7, kClasses = 4, kFeatures = 3, kWidth = 6;

std::unique_ptr<Model> small_mlp() {
  return make_model(model_options("mlp", "cross-entropy", {5, kWidth}), {kFeatures}, kClasses);
}

std::vector<float> scaled_row(const Model& model, uint64_t seed, float scale = 2) {
  std::vector<float> row = initial_row(model, seed);
  for (float& w : row) w *= scale;
  return row;
}

torch::Tensor in_doubles(const std::vector<float>& values) {
  return torch::tensor(values).to(torch::kDouble);
}

// small_mlp() in float64: its representations and logits.
struct Network {
  torch::Tensor h, z;

  Network(const torch::Tensor& row, const Batch& batch) {
    const torch::Tensor x =
        torch::from_blob(const_cast<float*>(batch.features), {batch.rows, kFeatures})
            .to(torch::kDouble);
    int64_t at = 0;
    const auto layer = [&](const torch::Tensor& input, int64_t out) {
      const int64_t in = input.size(1);
      const torch::Tensor w = row.slice(0, at, at + out * in).view({out, in});
      at += out * in;
      const torch::Tensor b = row.slice(0, at, at + out);
      at += out;
      return input.mm(w.t()) + b;
    };
    h = torch::relu(layer(torch::relu(layer(x, 5)), kWidth));
    z = layer(h, kClasses);
  }
};

torch::Tensor labels_of(const Batch& batch) {
  return torch::from_blob(const_cast<int32_t*>(batch.labels), {batch.rows}, torch::kInt)
      .to(torch::kLong);
}

// Compares loss and gradient with those of `extra`(network) beside the cross-entropy.
template <class Extra>
void expect_loss(Model& model, const std::vector<float>& row, const Batch& batch, Extra extra) {
  const LossAndGradient found = loss_and_gradient(model, row, batch);
  const torch::Tensor w = in_doubles(row).requires_grad_();
  const Network network(w, batch);
  const torch::Tensor loss =
      torch::nn::functional::cross_entropy(network.z, labels_of(batch)) + extra(network);
  loss.backward();
  EXPECT_NEAR(found.loss, loss.item<double>(), 2e-6 * (1 + loss.item<double>()));
  const torch::Tensor gradient = w.grad().contiguous();
  const double largest = gradient.abs().max().item<double>();
  for (std::size_t i = 0; i < row.size(); ++i) {
    EXPECT_NEAR(found.gradient[i], gradient.data_ptr<double>()[i], 5e-6 * (1 + largest)) << i;
  }
}

TEST(ModelContrast, IsThePapersLoss) {
  const Samples samples({kFeatures}, kClasses, kRows, 1);
  const Batch batch = samples.batch();
  for (const double mu : {0.3, 5.0}) {
    for (const double tau : {0.1, 0.5, 2.0}) {
      const auto model = small_mlp();
      contrast_with_models(*model, mu, tau);
      const std::vector<float> received = scaled_row(*model, 2), last = scaled_row(*model, 3);
      model->receive({received, last});
      expect_loss(*model, scaled_row(*model, 1), batch, [&](const Network& own) {
        const auto to = [&](const std::vector<float>& row) {
          return torch::cosine_similarity(own.h, Network(in_doubles(row), batch).h, 1, 1e-12) / tau;
        };
        const torch::Tensor both = torch::stack({to(received), to(last)}, 1);
        return -mu * torch::log_softmax(both, 1).select(1, 0).mean();
      });
    }
  }
}

// Without a last model the contrast is log 2 and does not move; a vector 0 has no direction.
TEST(ModelContrast, DoesNotMoveWithoutALastModel) {
  const Samples samples({kFeatures}, kClasses, kRows, 3);
  const auto plain = small_mlp(), model = small_mlp();
  contrast_with_models(*model, 2, 0.7);
  const std::vector<float> row = scaled_row(*model, 1);
  const LossAndGradient expected = loss_and_gradient(*plain, row, samples.batch());
  for (const std::vector<float>& received :
       {scaled_row(*model, 2), std::vector<float>(row.size(), 0.0F)}) {
    model->receive({received});
    const LossAndGradient found = loss_and_gradient(*model, row, samples.batch());
    EXPECT_EQ(found.gradient, expected.gradient);
    EXPECT_NEAR(found.loss, expected.loss + 2 * std::numbers::ln2, 1e-6);
  }
  model->receive({row, scaled_row(*model, 2)});
  EXPECT_NE(loss_and_gradient(*model, row, samples.batch()).gradient, expected.gradient);
}

// Each position has its share of a sample's contrast.
TEST(ModelContrast, IsTheMeanOverPositions) {
  const std::vector<int64_t> shape = small_shape("lstm");
  const LabelForm form(4, 12);
  const Samples samples(shape, form, 3, 2, 11);
  const auto make = [&] { return make_model(small_options("lstm", "cross-entropy"), shape, form); };
  const auto plain = make(), model = make();
  contrast_with_models(*model, 2, 0.7);
  const std::vector<float> row = initial_row(*model, 1);
  model->receive({initial_row(*model, 2)});
  EXPECT_NEAR(loss_and_gradient(*model, row, samples.batch()).loss,
              loss_and_gradient(*plain, row, samples.batch()).loss + 2 * std::numbers::ln2, 1e-5);
}

// Means of representations; class 1 has none.
std::vector<float> some_means(int64_t classes, int64_t width) {
  std::vector<float> means;
  for (int64_t c = 0; c < classes; ++c) {
    for (int64_t i = 0; i < width; ++i) {
      means.push_back(0.3F * static_cast<float>((5 * c + 3 * i) % 7) - 0.2F);
    }
    means.push_back(c == 1 ? 0.0F : 1.0F);
  }
  return means;
}

TEST(ClassMeanPull, IsThePapersLoss) {
  const Samples samples({kFeatures}, kClasses, kRows, 1);
  const Batch batch = samples.batch();
  const std::vector<float> means = some_means(kClasses, kWidth);
  const torch::Tensor table = in_doubles(means).view({kClasses, kWidth + 1});
  for (const double lambda : {0.2, 3.0}) {
    const auto model = small_mlp();
    pull_to_class_means(*model, lambda, MeanDistance::kOfMeans);
    model->receive({{}, {}, means});
    expect_loss(*model, scaled_row(*model, 1), batch, [&](const Network& own) {
      torch::Tensor all = torch::zeros({}, torch::kDouble);
      for (int64_t c = 0; c < kClasses; ++c) {
        const torch::Tensor mine = labels_of(batch).eq(c).nonzero().flatten();
        if (c == 1 || mine.numel() == 0) continue;
        all = all + (own.h.index_select(0, mine).mean(0) - table[c].slice(0, 0, kWidth)).norm();
      }
      return lambda * all;
    });
  }
}

TEST(ClassMeanPull, IsTheAuthorsMeanSquare) {
  const Samples samples({kFeatures}, kClasses, kRows, 2);
  const Batch batch = samples.batch();
  const std::vector<float> means = some_means(kClasses, kWidth);
  const auto model = small_mlp();
  pull_to_class_means(*model, 1.5, MeanDistance::kOfSamples);
  model->receive({{}, {}, means});
  expect_loss(*model, scaled_row(*model, 1), batch, [&](const Network& own) {
    const torch::Tensor rows =
        in_doubles(means).view({kClasses, kWidth + 1}).index_select(0, labels_of(batch));
    const torch::Tensor known = rows.slice(1, kWidth, kWidth + 1);
    const torch::Tensor to = known * rows.slice(1, 0, kWidth) +
                             (1 - known) * own.h.detach();  // as the authors' proto_new
    return 1.5 * torch::mse_loss(own.h, to);
  });
}

TEST(ClassMeanPull, DoesNotMoveWithoutMeansOrAtThem) {
  const Samples samples({kFeatures}, kClasses, 1, 3);
  const auto plain = small_mlp(), model = small_mlp();
  pull_to_class_means(*model, 2, MeanDistance::kOfMeans);
  const std::vector<float> row = scaled_row(*model, 1);
  const LossAndGradient expected = loss_and_gradient(*plain, row, samples.batch());
  std::vector<float> here(kWidth), means;
  model->represent(row, samples.batch(), here);
  for (int64_t c = 0; c < kClasses; ++c) {
    means.insert(means.end(), here.begin(), here.end());
    means.push_back(1);
  }
  for (const std::vector<float>& given :
       {std::vector<float>(), std::vector<float>(means.size(), 0.0F), means}) {
    model->receive({{}, {}, given});
    const LossAndGradient found = loss_and_gradient(*model, row, samples.batch());
    EXPECT_EQ(found.gradient, expected.gradient);
    EXPECT_EQ(found.loss, expected.loss);
  }
}

struct Case {
  std::string kind;
  LabelForm labels;
  std::vector<int64_t> shape() const {
    if (kind == "cnn-leaf") return {1, 28, 28};
    if (kind == "cnn-cifar") return {3, 8, 8};
    return small_shape(kind);
  }
  std::unique_ptr<Model> model() const {
    ModelOptions options = small_options(kind, "cross-entropy");
    if (kind == "graph") options.path = written(hidden_graph());
    return make_model(options, shape(), labels);
  }
  Samples samples() const { return Samples(shape(), labels, 4, 2, reads_tokens(kind) ? 11 : 0); }
};

const std::vector<Case> kCases = {{"mlp", 3},
                                  {"cnn-leaf", 3},
                                  {"cnn-cifar", 3},  // with dropout
                                  {"lenet", 3},
                                  {"resnet18", 3},
                                  {"lstm", 3},
                                  {"transformer", 3},
                                  {"graph", 3},
                                  {"lstm", LabelForm(4, 12)},
                                  {"transformer", LabelForm(4, 12)}};

// d(loss) along the gradient; float32 losses have 1e-7.
void expect_gradient(Model& model, const std::vector<float>& row, const Batch& batch,
                     const std::string& what) {
  const LossAndGradient found = loss_and_gradient(model, row, batch);
  double squared = 0;
  for (const float g : found.gradient) squared += static_cast<double>(g) * static_cast<double>(g);
  const double norm = std::sqrt(squared), h = 3e-3;
  const auto moved = [&](double by) {
    std::vector<float> there = row;
    for (std::size_t i = 0; i < row.size(); ++i) {
      there[i] += static_cast<float>(by / norm) * found.gradient[i];
    }
    return loss_and_gradient(model, there, batch).loss;
  };
  EXPECT_NEAR((moved(h) - moved(-h)) / (2 * h), norm, 2e-2 * norm) << what;
}

TEST(Representations, LossesHaveTheirGradientInEveryNetwork) {
  for (const Case& c : kCases) {
    const Samples samples = c.samples();
    const auto contrast = c.model(), means = c.model(), squares = c.model(), plain = c.model();
    const std::vector<float> row = initial_row(*contrast, 1);
    std::vector<float> received = initial_row(*contrast, 2), last = initial_row(*contrast, 3);
    for (std::size_t i = 0; i < last.size(); ++i) {  // a graph starts from its file's values
      received[i] *= 1.4F;
      last[i] += 0.1F * std::sin(static_cast<float>(i));
    }
    const std::vector<float> table = some_means(c.labels.classes, plain->representation_width());
    contrast_with_models(*contrast, 20, 0.05);
    pull_to_class_means(*means, 3, MeanDistance::kOfMeans);
    pull_to_class_means(*squares, 30, MeanDistance::kOfSamples);
    for (Model* model : {contrast.get(), means.get(), squares.get()}) {
      model->receive({received, last, table});
      expect_gradient(*model, row, samples.batch(), c.kind);
      EXPECT_GT(loss_and_gradient(*model, row, samples.batch()).loss,
                loss_and_gradient(*plain, row, samples.batch()).loss)
          << c.kind;
    }
  }
}

// What represent() says is what the last layer, the last weight and bias of the row, reads.
TEST(Representations, AreWhatTheLastLayerReads) {
  for (const Case& c : kCases) {
    const Samples samples = c.samples();
    const auto model = c.model();
    const std::vector<float> row = initial_row(*model, 1);
    const int64_t width = model->representation_width(), outputs = c.labels.classes;
    const int64_t places = samples.rows * c.labels.values;
    std::vector<float> h(static_cast<std::size_t>(places * width));
    std::vector<float> z(static_cast<std::size_t>(places * outputs));
    model->represent(row, samples.batch(), h);
    model->evaluate(row, samples.batch(),
                    {.outputs = z.data(), .logits = c.labels.values * outputs});
    const auto& slots = model->layout().slots();
    const float* weight = row.data() + slots[slots.size() - 2].offset;
    const float* bias = row.data() + slots.back().offset;
    ASSERT_EQ(slots[slots.size() - 2].size, outputs * width) << c.kind;
    for (int64_t place = 0; place < places; ++place) {
      for (int64_t o = 0; o < outputs; ++o) {
        double sum = bias[o];
        for (int64_t i = 0; i < width; ++i) sum += weight[o * width + i] * h[place * width + i];
        EXPECT_NEAR(z[static_cast<std::size_t>(place * outputs + o)], sum, 2e-5) << c.kind;
      }
    }
  }
}

// Both labels of a mixture pull, by their shares.
TEST(Representations, PullByBothLabelsOfAMixture) {
  const Samples samples({kFeatures}, kClasses, kRows, 1), others({kFeatures}, kClasses, kRows, 5);
  const auto model = small_mlp();
  pull_to_class_means(*model, 2, MeanDistance::kOfSamples);
  const std::vector<float> row = scaled_row(*model, 1), means = some_means(kClasses, kWidth);
  model->receive({{}, {}, means});
  Batch batch = samples.batch();
  const LossAndGradient first = loss_and_gradient(*model, row, batch);
  batch.labels = others.labels.data();
  const LossAndGradient second = loss_and_gradient(*model, row, batch);
  const MixedLabels mixed{.labels = others.labels.data(), .share = 0.3};
  batch = samples.batch();
  batch.mixed = &mixed;
  const LossAndGradient both = loss_and_gradient(*model, row, batch);
  EXPECT_NEAR(both.loss, 0.3 * first.loss + 0.7 * second.loss, 1e-5);
  for (std::size_t i = 0; i < row.size(); ++i) {
    EXPECT_NEAR(both.gradient[i], 0.3F * first.gradient[i] + 0.7F * second.gradient[i], 1e-5) << i;
  }
}

TEST(Representations, NeedALayerBehindOthers) {
  const auto linear = make_model({.kind = "linear"}, {kFeatures}, kClasses);
  EXPECT_EQ(linear->representation_width(), 0);
  for (const bool contrast : {false, true}) {
    expect_error<InvalidArgument>(
        [&] {
          if (contrast) contrast_with_models(*linear, 1, 1);
          if (!contrast) pull_to_class_means(*linear, 1, MeanDistance::kOfMeans);
        },
        {"represent", "model.kind", "mlp"});
  }
}

}  // namespace
}  // namespace hanse
