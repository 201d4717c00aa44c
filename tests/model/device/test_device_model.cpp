// A model whose arithmetic runs on a device does all that the host's does.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hanse/base/kind.hpp"
#include "hanse/model/distillation.hpp"
#include "hanse/model/part_model.hpp"
#include "hanse/model/torch_library.hpp"
#include "model/networks/graphs/graph_guard_parts.hpp"
#include "model/support.hpp"
#include "support/devices.hpp"
#include "support/hidden_graph.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

constexpr double kTolerance = 2e-4;

struct ModelOf {
  ModelOptions options;
  LabelForm labels;

  std::vector<int64_t> shape() const { return small_shape(options.kind); }
  Samples samples(int64_t rows, uint64_t seed = 1) const {
    return {shape(), labels, rows, seed, reads_tokens(options.kind) ? options.vocabulary : 0};
  }
};

// A host's model, and the one on a device that is made of it.
struct Both {
  Both(const ModelOf& of, const std::string& device)
      : host(make_model(of.options, of.shape(), of.labels)),
        there(torch_library().make_device_model(*host, of.options, of.shape(), of.labels, device)) {
  }
  std::unique_ptr<Model> host, there;
};

ModelOf plain(const std::string& kind, double dropout = 0) {
  ModelOf of{small_options(kind, "cross-entropy"), LabelForm(3)};
  of.options.dropout = dropout;
  return of;
}

// Every kind, and labels of every form.
std::vector<ModelOf> models() {
  std::vector<ModelOf> all;
  for (const auto& kind : model_kinds()) all.push_back(plain(kind.name));
  for (const char* kind : {"cnn-leaf", "lstm", "transformer"}) all.push_back(plain(kind, 0.25));
  all.back().options.layers = 2;
  all.push_back(plain("lstm", 0.25));
  all.back().options.layers = 2;
  all.push_back({small_options("mlp", "binary-logistic"), LabelForm(2)});
  all.push_back({small_options("mlp", "squared-error"), LabelForm(0)});
  all.push_back({small_options("lenet", "binary-logistic"), LabelForm(0, 3, true)});
  all.push_back({small_options("mlp", "squared-error"), LabelForm(0, 3)});
  all.push_back({small_options("lstm", "cross-entropy"), LabelForm(3, 12)});
  all.push_back({small_options("transformer", "cross-entropy"), LabelForm(3, 12)});
  ModelOf norm = plain("graph");
  norm.options.path = written(picture_norm_graph());
  all.push_back(norm);
  norm.options.path = written(hidden_graph());
  all.push_back(norm);
  return all;
}

template <class Work>
void for_each_model(const Work& work) {
  for (const std::string& device : test_devices()) {
    for (const ModelOf& of : models()) {
      SCOPED_TRACE(of.options.kind + " by " + of.options.loss + " on " + device);
      Both both(of, device);
      work(of, both);
    }
  }
}

TEST(DeviceModel, GradientsStepsAndMovedBuffersAreTheHosts) {
  for_each_model([](const ModelOf& of, Both& both) {
    const std::vector<float> row = initial_row(*both.host);
    EXPECT_EQ(initial_row(*both.there), row);
    const Samples samples = of.samples(5);
    const auto expected = loss_and_gradient(*both.host, row, samples.batch(), 3);
    const auto found = loss_and_gradient(*both.there, row, samples.batch(), 3);
    EXPECT_NEAR(found.loss, expected.loss, 1e-5 * expected.loss);
    expect_close(both.host->layout(), found.gradient, expected.gradient, kTolerance);
    std::vector<float> here = row, there = row;
    for (uint64_t step = 0; step < 2; ++step) {
      RandomStream noise = noise_stream(step), same = noise_stream(step);
      both.host->sgd_step(here, of.samples(4, step).batch(), noise, 0.1, 0.01);
      both.there->sgd_step(there, of.samples(4, step).batch(), same, 0.1, 0.01);
      EXPECT_EQ(noise.next(), same.next());  // both have drawn as much
    }
    expect_close(both.host->layout(), there, here, kTolerance);
  });
}

TEST(DeviceModel, EvaluationsAreTheHosts) {
  for_each_model([](const ModelOf& of, Both& both) {
    const std::vector<float> row = initial_row(*both.host);
    const Samples samples = of.samples(9);
    const auto expected = both.host->evaluate(row, samples.batch());
    const auto found = both.there->evaluate(row, samples.batch());
    EXPECT_NEAR(found.loss, expected.loss, 1e-5 * expected.loss);
    EXPECT_EQ(found.correct, expected.correct);
    EXPECT_EQ(found.samples, 9);
    EXPECT_EQ(both.there->evaluation_rows(), both.host->evaluation_rows());
    EXPECT_EQ(both.there->vocabulary(), both.host->vocabulary());
    double losses[1];
    const Batch batch = samples.batch();
    both.there->cross_losses(row, {&batch, 1}, losses);
    EXPECT_EQ(losses[0], found.loss / 9);
  });
}

TEST(DeviceModel, ClippedGradientsOfSamplesAreTheHosts) {
  for_each_model([](const ModelOf& of, Both& both) {
    const ParameterLayout& layout = both.host->layout();
    if (layout.n_trainable() < layout.n_params()) return;  // buffers
    if (layout.n_params() > 200'000) return;               // slow, and no other code
    const std::vector<float> row = initial_row(*both.host);
    const Samples samples = of.samples(6);
    int64_t values = 1;
    for (const int64_t extent : of.shape()) values *= extent;
    std::vector<double> here(row.size()), there(row.size(), NAN);
    for (const double clip : {0.5, 100.0}) {
      RandomStream noise = noise_stream(2), same = noise_stream(2);
      const SampleSizes sizes{values, of.labels.values};
      const double loss =
          both.host->clipped_gradient(row, samples.batch(), sizes, noise, clip, here);
      EXPECT_NEAR(both.there->clipped_gradient(row, samples.batch(), sizes, same, clip, there),
                  loss, 1e-5 * loss);
      EXPECT_EQ(noise.next(), same.next());
      expect_close(layout, {there.begin(), there.end()}, {here.begin(), here.end()}, kTolerance);
    }
  });
}

TEST(DeviceModel, ASampleWithoutAGradientAddsNothing) {
  for (const std::string& device : test_devices()) {
    const ModelOf of = plain("mlp");
    Both both(of, device);
    const std::vector<float> row = initial_row(*both.host);
    Samples samples = of.samples(3);
    std::fill_n(samples.features.begin() + 144, 144, INFINITY);
    std::vector<double> all(row.size()), first(row.size());
    RandomStream noise = noise_stream();
    both.there->clipped_gradient(row, samples.batch(), {144}, noise, 1, all);
    Samples others = samples;
    std::copy_n(samples.features.begin() + 288, 144, others.features.begin() + 144);
    others.labels[1] = samples.labels[2];
    others.rows = 2;
    both.there->clipped_gradient(row, others.batch(), {144}, noise, 1, first);
    expect_close(both.host->layout(), {all.begin(), all.end()}, {first.begin(), first.end()}, 1e-5);
  }
}

TEST(DeviceModel, HessiansAreTheHosts) {
  int64_t compared = 0;
  for_each_model([&](const ModelOf& of, Both& both) {
    ASSERT_EQ(both.there->has_hessian(), both.host->has_hessian());
    if (!both.host->has_hessian()) return;
    const std::vector<float> row = initial_row(*both.host);
    const Samples samples = of.samples(5);
    const std::vector<float> v = initial_row(*both.host, 7);
    std::vector<float> here(row.size()), there(row.size(), NAN);
    both.host->hessian_vector(row, samples.batch(), v, here);
    both.there->hessian_vector(row, samples.batch(), v, there);
    expect_close(both.host->layout(), there, here, kTolerance);
    ++compared;
  });
  EXPECT_GE(compared, 10);
}

// Mixtures of labels, smoothed labels with weights of classes, and the samples' own losses.
TEST(DeviceModel, TrainsForTheLossesOfTheHost) {
  for (const std::string& device : test_devices()) {
    for (const bool smooths : {false, true}) {
      const ModelOf of = plain("lenet");
      Both both(of, device);
      const std::vector<float> row = initial_row(*both.host);
      const Samples samples = of.samples(5), other = of.samples(5, 2);
      const MixedLabels mixed{.labels = other.labels.data(), .share = 0.3};
      const std::vector<float> weights{0.5, 2, 1};
      std::vector<double> here(5), there(5);
      Batch batch = samples.batch();
      batch.mixed = &mixed;
      batch.sample_losses = here.data();
      if (smooths) {
        batch.sample_losses = nullptr;
        batch.class_weights = weights.data();
        smooth_labels(*both.host, 0.2);
        smooth_labels(*both.there, 0.2);
      }
      const auto expected = loss_and_gradient(*both.host, row, batch);
      if (!smooths) batch.sample_losses = there.data();
      const auto found = loss_and_gradient(*both.there, row, batch);
      EXPECT_NEAR(found.loss, expected.loss, 1e-5 * expected.loss);
      expect_close(both.host->layout(), found.gradient, expected.gradient, kTolerance);
      for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(there[i], here[i], 1e-5);
    }
  }
}

TEST(DeviceModel, HasTheRepresentationsOfTheHost) {
  int64_t compared = 0;
  for_each_model([&](const ModelOf& of, Both& both) {
    const int64_t width = both.host->representation_width();
    ASSERT_EQ(both.there->representation_width(), width);
    if (width == 0) return;
    const int64_t positions = of.labels.is_sequence() ? of.labels.values : 1;
    const std::vector<float> row = initial_row(*both.host), received = initial_row(*both.host, 2);
    const std::vector<float> last = initial_row(*both.host, 3);
    const Samples samples = of.samples(5);
    std::vector<float> here(static_cast<std::size_t>(5 * positions * width)), there = here;
    both.host->represent(row, samples.batch(), here);
    both.there->represent(row, samples.batch(), there);
    for (std::size_t i = 0; i < here.size(); ++i) EXPECT_NEAR(there[i], here[i], 1e-4);
    for (Model* model : {both.host.get(), both.there.get()}) {
      contrast_with_models(*model, 5, 0.5);
      model->receive({row, last});
    }
    const auto expected = loss_and_gradient(*both.host, received, samples.batch());
    const auto found = loss_and_gradient(*both.there, received, samples.batch());
    EXPECT_NEAR(found.loss, expected.loss, 1e-4 * expected.loss);
    expect_close(both.host->layout(), found.gradient, expected.gradient, kTolerance);
    ++compared;
  });
  EXPECT_GE(compared, 8);
}

TEST(DeviceModel, IsTheNetworkOfAPart) {
  for (const std::string& device : test_devices()) {
    for (const char* kind : {"mlp", "graph"}) {
      SCOPED_TRACE(kind);
      ModelOf of = plain(kind);
      const bool is_graph = of.options.kind == "graph";
      if (is_graph) of.options.path = written(picture_norm_graph());
      const TrainedPart part{.train = {is_graph ? "bias" : "fc2.*"},
                             .rank = 2,
                             .layers = {is_graph ? "weight" : "fc1.weight"}};
      PartModel here(make_model(of.options, of.shape(), of.labels), part);
      PartModel there(make_model(of.options, of.shape(), of.labels), part);
      for (PartModel* model : {&here, &there}) model->hold(*make_single_communicator(), 3);
      auto moved = torch_library().make_device_model(there.network(), of.options, of.shape(),
                                                     of.labels, device);
      const auto host = there.replace_network(std::move(moved));
      std::vector<float> expected = initial_row(here), found = expected;
      for (uint64_t step = 0; step < 2; ++step) {
        RandomStream noise = noise_stream(step), same = noise_stream(step);
        here.sgd_step(expected, of.samples(4, step).batch(), noise, 0.5, 0);
        there.sgd_step(found, of.samples(4, step).batch(), same, 0.5, 0);
      }
      expect_close(here.layout(), found, expected, kTolerance);
      EXPECT_NE(found, initial_row(here));
    }
  }
}

// The host does not wait for what a device sees in its own memory; it is told later.
TEST(GraphGuards, PlacesAreLookedAtWhereTheyAre) {
  for (const std::string& device : test_devices()) {
    for (const at::ScalarType type : {at::kLong, at::kInt}) {
      const auto look = [&](int64_t from, int64_t end) {
        const at::Tensor places = at::arange(from, 5, at::TensorOptions(type)).to(device);
        guards::require_below(places, end);
        return places.cpu();  // waits
      };
      EXPECT_NO_THROW(look(0, 5)) << device;
      EXPECT_NO_THROW(look(5, 0)) << device;  // none
      EXPECT_ANY_THROW(look(0, 4)) << device;
      EXPECT_ANY_THROW(look(-1, 5)) << device;
    }
    EXPECT_ANY_THROW(guards::require_below(at::zeros({2}).to(device), 5)) << device;
  }
}

}  // namespace
}  // namespace hanse
