// A step of SGD of clients side by side on a GPU: gradients written out by hand where the model's
// layers are known, and LibTorch's autograd, each with step graphs and without.
//   hanse-bench-device [--clients=N] [--device=cpu] [--precision=bfloat16|tf32] MODEL ...
// prints a JSON object a line: milliseconds of a step of all N clients (default: 10).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/choice.hpp"
#include "hanse/base/random.hpp"
#include "hanse/cli/start.hpp"
#include "hanse/model/cohort.hpp"
#include "hanse/model/torch_library.hpp"

namespace {

using namespace hanse;

// A benchmark's model, samples and batch.
struct Case {
  ModelOptions model;
  std::vector<int64_t> shape;
  int64_t classes, batch;
  bool tokens = false;
};

const std::map<std::string, Case>& cases() {
  static const std::map<std::string, Case> all{
      {"lr", {{.kind = "linear"}, {1, 28, 28}, 10, 10}},
      {"mlp", {{.kind = "mlp", .hidden = {200}}, {1, 28, 28}, 10, 20}},
      {"cifar", {{.kind = "cnn-cifar"}, {3, 32, 32}, 10, 10}},
      {"femnist", {{.kind = "cnn-leaf"}, {1, 28, 28}, 62, 20}},
      {"resnet18", {{.kind = "resnet18"}, {3, 32, 32}, 10, 10}},
      {"transformer", {{.kind = "transformer"}, {80}, 97, 10, true}},
      {"lstm", {{.kind = "lstm"}, {80}, 97, 10, true}},
  };
  return all;
}

constexpr int64_t kSteps = 32, kSamples = 64;

struct Data {
  std::vector<float> features;
  std::vector<int32_t> labels;

  explicit Data(const Case& c) {
    RandomStream stream(1, Purpose::kInitialize);
    int64_t values = kSamples;
    for (const int64_t side : c.shape) values *= side;
    for (int64_t i = 0; i < values; ++i) {
      features.push_back(c.tokens ? static_cast<float>(stream.below(c.classes))
                                  : static_cast<float>(stream.uniform()));
    }
    for (int64_t i = 0; i < kSamples; ++i) {
      labels.push_back(static_cast<int32_t>(stream.below(c.classes)));
    }
  }
};

// Milliseconds of a step.
double step_ms(const Case& c, const Data& data, const Cohort::Settings& settings) {
  const auto cohort = torch_library().make_cohort(c.model, c.shape, c.classes, settings);
  Batch batch;
  batch.rows = kSamples;
  batch.features = data.features.data();
  batch.labels = data.labels.data();
  cohort->put(0, batch);
  const auto model = make_model(c.model, c.shape, c.classes);
  std::vector<float> row(static_cast<std::size_t>(model->n_params()));
  RandomStream stream(2, Purpose::kInitialize);
  model->initialize(row, stream);
  cohort->put_theta(row);
  const auto places = static_cast<std::size_t>(kSteps * settings.clients);
  std::vector<int64_t> samples;
  for (std::size_t i = 0; i < places * static_cast<std::size_t>(settings.batch); ++i) {
    samples.push_back(static_cast<int64_t>(i) % kSamples);
  }
  const std::vector<int64_t> counts(places, settings.batch);
  const std::vector<StepSize> sizes(places, {.rate = 1e-3F});
  std::vector<double> losses(static_cast<std::size_t>(settings.clients));
  std::vector<Cohort::NoiseKey> noise(losses.size());
  double least = 1e9;
  for (int pass = 0; pass < 6; ++pass) {  // the first two warm up and record
    const auto start = std::chrono::steady_clock::now();
    cohort->start({.noise = noise});
    cohort->put_steps({samples, counts, sizes});
    cohort->steps(0, kSteps, settings.clients);
    cohort->take_losses(losses);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    if (pass > 1) least = std::min(least, took.count());
  }
  return least / kSteps;
}

}  // namespace

extern "C" int hanse_main(int argc, char** argv, const hanse::Start&) {
  Cohort::Settings settings{.clients = 10, .samples = kSamples};
  std::vector<std::string> names;
  std::string device;
  Precision precision = Precision::kFloat32;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--clients=", 0) == 0) {
      settings.clients = std::atoll(word.c_str() + 10);
    } else if (word.rfind("--device=", 0) == 0) {
      device = word.substr(9);
    } else if (word.rfind("--precision=", 0) == 0) {
      precision = value_of<Precision>(word.substr(12)).value_or(Precision::kFloat32);
    } else {
      names.push_back(word);
    }
  }
  settings.device = device.empty() ? torch_library().gpu.use(0, precision) : device;
  for (const std::string& name : names) {
    Case c = cases().at(name);
    c.model.precision = precision;
    const Data data(c);
    settings.batch = c.batch;
    const bool has_layers = name != "resnet18" && name != "transformer" && name != "lstm";
    std::string line;
    for (const bool by_hand : {true, false}) {
      if (by_hand && !has_layers) continue;
      for (const bool graphs : {true, false}) {
        settings.by_hand = by_hand;
        settings.starts.recorded = graphs;
        line += fmt::format("{}\"{}{}\": {:.4f}", line.empty() ? "" : ", ",
                            by_hand ? "by hand" : "autograd", graphs ? ", graphs" : "",
                            step_ms(c, data, settings));
      }
    }
    fmt::print("{{\"{}, {} clients\": {{{}}}}}\n", name, settings.clients, line);
    std::fflush(stdout);
  }
  return 0;
}
