#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/base/kind.hpp"
#include "hanse/model/torch_library.hpp"
#include "support.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

struct Size {
  std::string kind;
  std::vector<int64_t> shape;
  int64_t classes, n_params;
};

TEST(Zoo, KindsHaveAsManyParametersAsPublished) {
  const std::vector<Size> sizes = {{"linear", {784}, 10, 7850},
                                   {"linear", {1, 28, 28}, 10, 7850},
                                   {"mlp", {784}, 10, 159010},
                                   {"lenet", {1, 28, 28}, 10, 61706},
                                   {"lenet", {3, 32, 32}, 10, 62006},
                                   {"cnn-cifar", {3, 32, 32}, 10, 1626442},
                                   {"cnn-leaf", {1, 28, 28}, 62, 6603710},
                                   {"cnn-mcmahan", {1, 28, 28}, 10, 1663370},
                                   {"cnn-byzfl", {1, 28, 28}, 10, 431080},
                                   {"resnet18", {3, 32, 32}, 10, 11173962},
                                   {"lstm", {80}, 80, 819920},
                                   {"transformer", {80}, 90, 61594}};
  for (const Size& size : sizes) {
    const auto model =
        make_model(model_options(size.kind, "cross-entropy"), size.shape, size.classes);
    EXPECT_EQ(model->n_params(), size.n_params) << size.kind;
  }
}

// Multiply-adds a sample, counted by hand; the first layer of images and features is apart, since
// the gradient of its input is not computed.
TEST(Zoo, FlopsOfAGradient) {
  struct Work {
    std::string kind;
    std::vector<int64_t> shape;
    int64_t classes;
    double first, others;
  };
  const std::vector<Work> works = {
      {"linear", {784}, 10, 784 * 10, 0},
      {"mlp", {784}, 10, 784 * 200, 200 * 10},
      {"lenet",
       {1, 28, 28},
       10,
       28 * 28 * 6 * 25,
       10 * 10 * 16 * 6 * 25 + 400 * 120 + 120 * 84 + 84 * 10},
      {"cnn-cifar",
       {3, 32, 32},
       10,
       30 * 30 * 32 * 3 * 9,
       28 * 28 * 64 * 32 * 9 + 12544 * 128 + 128 * 10},
      {"cnn-mcmahan",
       {1, 28, 28},
       10,
       28 * 28 * 32 * 25,
       14 * 14 * 64 * 32 * 25 + 3136 * 512 + 512 * 10},
      {"cnn-byzfl",
       {1, 28, 28},
       10,
       24 * 24 * 20 * 25,
       8 * 8 * 50 * 20 * 25 + 800 * 500 + 500 * 10},
      {"resnet18", {3, 32, 32}, 10, 1024 * 64 * 27, 555417600 + 512 * 10 - 1024 * 64 * 27},
      {"lstm", {80}, 80, 0, 80 * 4 * 256 * (8 + 256 + 256 + 256) + 256 * 80},
      {"transformer", {80}, 90, 0, 80 * (4 * 64 * 64 + 2 * 64 * 256 + 2 * 80 * 64) + 64 * 90}};
  for (const Work& work : works) {
    auto options = model_options(work.kind, "cross-entropy");
    const auto model = make_model(options, work.shape, work.classes);
    const Samples samples(work.shape, work.classes, 2, 1, work.first == 0 ? work.classes : 0);
    EXPECT_EQ(model->flops(), 0);
    for (int times = 1; times <= 2; ++times) {
      loss_and_gradient(*model, initial_row(*model), samples.batch());
      EXPECT_DOUBLE_EQ(model->flops(), times * 2 * (4 * work.first + 6 * work.others)) << work.kind;
    }
  }
}

TEST(Zoo, LayoutHasNoGaps) {
  for (const auto& kind : model_kinds()) {
    const auto model =
        make_model(small_options(kind.name, "cross-entropy"), small_shape(kind.name), 3);
    int64_t offset = 0;
    for (const ParameterSlot& slot : model->layout().slots()) {
      EXPECT_EQ(slot.offset, offset) << kind.name << " " << slot.name;
      int64_t product = 1;
      for (const int64_t extent : slot.shape) product *= extent;
      EXPECT_EQ(slot.size, product);
      offset += slot.size;
    }
    EXPECT_EQ(model->n_params(), offset);
    EXPECT_FALSE(kind.summary.empty());
  }
}

// What the zoo says without LibTorch is what LibTorch's table has.
TEST(Zoo, LibTorchMakesTheKindsThatNeedItAndTrainsThoseThatGpusDo) {
  const TorchLibrary& library = torch_library();
  for (const auto& kind : model_kinds()) {
    const auto row = std::ranges::find(library.models, kind.name, &TorchModel::kind);
    const bool makes = row != library.models.end() && row->make != nullptr;
    EXPECT_EQ(makes, needs_torch(kind.name)) << kind.name;
    const auto make_cohort = [&] {
      library.make_cohort(small_options(kind.name, "cross-entropy"), small_shape(kind.name), 3, {});
    };
    if (kind.cpus_alone) {
      expect_error<InvalidArgument>(make_cohort, {kind.name, "trains on CPUs alone"});
    } else {
      EXPECT_NO_THROW(make_cohort()) << kind.name;
    }
  }
}

TEST(Zoo, NamesAndFanIn) {
  const auto model = make_model(model_options("cnn-cifar", "cross-entropy"), {3, 32, 32}, 10);
  const std::vector<std::string> names = {"conv1.weight", "conv1.bias", "conv2.weight",
                                          "conv2.bias",   "fc1.weight", "fc1.bias",
                                          "fc2.weight",   "fc2.bias"};
  const std::vector<int64_t> fan_ins = {27, 27, 288, 288, 12544, 12544, 128, 128};
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(model->layout().slots()[i].name, names[i]);
    EXPECT_EQ(model->layout().slots()[i].fan_in, fan_ins[i]);
  }
}

TEST(Initialize, IsUniformWithinTheBound) {
  const auto model = make_model(model_options("mlp", "cross-entropy"), {784}, 10);
  const std::vector<float> row = initial_row(*model);
  for (const ParameterSlot& slot : model->layout().slots()) {
    const double bound = 1.0 / std::sqrt(static_cast<double>(slot.fan_in));
    double largest = 0, sum = 0, squares = 0;
    for (int64_t i = slot.offset; i < slot.offset + slot.size; ++i) {
      const double w = static_cast<double>(row[static_cast<std::size_t>(i)]) / bound;
      largest = std::max(largest, std::abs(w));
      sum += w;
      squares += w * w;
    }
    const double n = static_cast<double>(slot.size);
    EXPECT_LE(largest, 1.0 + 1e-6) << slot.name;
    EXPECT_GT(largest, 1.0 - 7.0 / n) << slot.name;
    EXPECT_NEAR(sum / n, 0.0, 4 * std::sqrt(1.0 / 3.0 / n)) << slot.name;
    EXPECT_NEAR(squares / n, 1.0 / 3.0, 4 * std::sqrt(4.0 / 45.0 / n)) << slot.name;
  }
}

TEST(Initialize, NormsStartAsTheIdentity) {
  const auto model = make_model(small_options("transformer", "cross-entropy"), {5}, 3);
  const std::vector<float> row = initial_row(*model);
  int64_t norms = 0;
  for (const ParameterSlot& slot : model->layout().slots()) {
    if (slot.name.find("norm") == std::string::npos) continue;
    ++norms;
    const float start = slot.name.find("weight") == std::string::npos ? 0.0F : 1.0F;
    for (int64_t i = slot.offset; i < slot.offset + slot.size; ++i) {
      EXPECT_EQ(row[static_cast<std::size_t>(i)], start) << slot.name;
    }
  }
  EXPECT_EQ(norms, 4);
}

// Token models throw on what is none, also in the middle of a run.
TEST(Tokens, AreWholeNumbersOfTheVocabulary) {
  for (const std::string kind : {"lstm", "transformer"}) {
    const auto model = make_model(small_options(kind, "cross-entropy"), {2}, 3);
    EXPECT_EQ(model->vocabulary(), 11);
    const std::vector<float> row = initial_row(*model);
    const std::vector<int32_t> labels = {0};
    for (const float bad : {-1.0F, 11.0F, 0.5F, std::numeric_limits<float>::quiet_NaN(), 1e30F}) {
      const std::vector<float> values = {10.0F, bad};
      EXPECT_THROW(model->evaluate(row, {values.data(), labels.data(), nullptr, 1}), Error) << bad;
    }
    const std::vector<float> good = {10.0F, 0.0F};
    EXPECT_GT(model->evaluate(row, {good.data(), labels.data(), nullptr, 1}).loss, 0);
  }
}

TEST(Initialize, DependsOnTheStreamOnly) {
  const auto a = make_model(model_options("lenet", "cross-entropy"), {1, 28, 28}, 10);
  const auto b = make_model(model_options("lenet", "cross-entropy"), {1, 28, 28}, 10);
  EXPECT_EQ(initial_row(*a, 3), initial_row(*b, 3));
  EXPECT_NE(initial_row(*a, 3), initial_row(*a, 4));
}

TEST(Initialize, ZerosDrawNothing) {
  for (const auto& kind : model_kinds()) {
    ModelOptions options = small_options(kind.name, "cross-entropy");
    options.init = ModelInit::kZeros;
    const auto model = make_model(options, small_shape(kind.name), 3);
    std::vector<float> row(static_cast<std::size_t>(model->n_params()), 1.0f);
    RandomStream used(1, Purpose::kInitialize), untouched(1, Purpose::kInitialize);
    model->initialize(row, used);
    EXPECT_EQ(row, std::vector<float>(row.size(), 0.0f)) << kind.name;
    EXPECT_EQ(used.next(), untouched.next());
  }
}

// The message of the InvalidArgument that make_model throws.
std::string refusal(const ModelOptions& options, const std::vector<int64_t>& shape,
                    int64_t classes) {
  try {
    make_model(options, shape, classes);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(Errors, SayWhatTheModelNeeds) {
  const auto expect = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << "\"" << message << "\" lacks " << part;
  };
  const std::string ce = "cross-entropy";
  expect(refusal(model_options("cnn", ce), {5}, 2),
         "cnn-leaf, cnn-cifar, cnn-mcmahan, cnn-byzfl, lenet");
  expect(refusal(model_options("linear", "hinge"), {5}, 2), "binary-logistic");
  expect(refusal(model_options("linear", ce), {5}, 0), "squared-error is for regression");
  expect(refusal(model_options("linear", ce), {5}, 1), "two classes");
  expect(refusal(model_options("linear", "binary-logistic"), {5}, 3), "the data has 3");
  expect(refusal(model_options("linear", "squared-error"), {5}, 3), "regression targets");
  expect(refusal(model_options("mlp", ce, {}), {5}, 2), "hidden");
  expect(refusal(model_options("mlp", ce, {3, 0}), {5}, 2), "hidden");
  expect(refusal(model_options("linear", ce), {}, 2), "positive");
  expect(refusal(model_options("linear", ce), {3, 0}, 2), "positive");
  expect(refusal(model_options("lstm", ce), {1, 28, 28}, 2), "shape {length}, not {1, 28, 28}");
  expect(refusal(model_options("lstm", "squared-error"), {5}, 0), "number of tokens");
  expect(refusal(model_options("resnet18", ce), {784}, 2), "{channels, height, width}, not {784}");
  ModelOptions options = small_options("transformer", ce);
  options.heads = 4;
  expect(refusal(options, {5}, 2), "4 heads do not divide an embedding of 6");
  options = small_options("resnet18", ce);
  options.groups = 3;
  expect(refusal(options, {3, 8, 8}, 2), "3 groups do not divide 4 channels");
}

TEST(Errors, NetworksNameTheShapeTheyNeed) {
  struct Smallest {
    std::string kind;
    int64_t side;
  };
  for (const Smallest& s : {Smallest{"cnn-leaf", 4},
                            {"cnn-cifar", 6},
                            {"cnn-mcmahan", 4},
                            {"cnn-byzfl", 16},
                            {"lenet", 12}}) {
    const ModelOptions options = model_options(s.kind, "cross-entropy");
    EXPECT_EQ(refusal(options, {1, s.side, s.side}, 3), "");
    const std::string needs = "{channels, height, width} with sides of " + std::to_string(s.side);
    for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{
             {1, s.side - 1, 40}, {1, 40, s.side - 1}, {784}, {28, 28}, {1, 1, 28, 28}}) {
      EXPECT_NE(refusal(options, shape, 3).find(needs), std::string::npos) << s.kind;
    }
    const auto model = make_model(options, {1, s.side, s.side}, 3);
    const Samples samples({1, s.side, s.side}, 3, 2);
    EXPECT_TRUE(
        std::isfinite(loss_and_gradient(*model, initial_row(*model), samples.batch()).loss));
  }
}

// A refused network has made no row: one of these takes exabytes.
TEST(Errors, SizesBeyondAnyMemoryNameTheirKey) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const auto expect = [](const ModelOptions& options, const std::string& key, int64_t classes) {
    expect_error<InvalidArgument>([&] { make_model(options, {3, 8, 8}, classes); }, {key});
  };
  ModelOptions mlp = model_options("mlp", "cross-entropy");
  mlp.hidden = {kMost, kMost, kMost};
  expect(mlp, "model.hidden", 4);
  mlp.hidden = {10, int64_t{1} << 46};
  expect(mlp, "model.hidden", 4);
  ModelOptions resnet = model_options("resnet18", "cross-entropy");
  resnet.channels = int64_t{1} << 28;
  resnet.groups = 1;
  expect(resnet, "model.channels", 4);
}

TEST(Layout, RefusesProductsThatNoIntegerHolds) {
  EXPECT_EQ(size_of({int64_t{1} << 31, int64_t{1} << 31}), int64_t{1} << 62);
  EXPECT_EQ(size_of({}), 1);
  EXPECT_THROW(size_of({int64_t{1} << 31, int64_t{1} << 32}), ModelTooLarge);
}

}  // namespace
}  // namespace hanse
