// A step of SGD on LEAF's Shakespeare model against the same step in plain LibTorch: modules,
// optimizer, cross-entropy. By turns, in processor time, on one thread.
//   hanse-bench-lstm [steps]
// prints {"hanse": s, "libtorch": s}, medians of a step.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <vector>

#include <fmt/format.h>
#include <torch/torch.h>

#include "hanse/cli/start.hpp"
#include "hanse/model/model.hpp"
#include "hanse/model/threads.hpp"

namespace {

constexpr int64_t kRows = 10, kLength = 80, kTokens = 80, kEmbedding = 8, kUnits = 256, kLayers = 2;
constexpr double kRate = 0.1;

struct Network : torch::nn::Module {
  torch::nn::Embedding embedding{torch::nn::EmbeddingOptions(kTokens, kEmbedding)};
  torch::nn::LSTM lstm{
      torch::nn::LSTMOptions(kEmbedding, kUnits).num_layers(kLayers).batch_first(true)};
  torch::nn::Linear fc{kUnits, kTokens};

  Network() {
    register_module("embedding", embedding);
    register_module("lstm", lstm);
    register_module("fc", fc);
  }
  torch::Tensor forward(const torch::Tensor& ids) {
    return fc(std::get<0>(lstm(embedding(ids))).select(1, -1));
  }
};

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <class Step>
double seconds_of(Step step) {
  const double start = cpu_seconds();
  step();
  return cpu_seconds() - start;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

extern "C" int hanse_main(int argc, char** argv, const hanse::Start&) {
  using namespace hanse;
  set_model_threads(1);
  const int64_t steps = argc > 1 ? std::atoll(argv[1]) : 50;
  const auto model = make_model({.kind = "lstm"}, {kLength}, kTokens);
  std::vector<float> row(static_cast<std::size_t>(model->n_params()));
  RandomStream stream(1, Purpose::kInitialize);
  model->initialize(row, stream);
  std::vector<float> features;
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < kRows * kLength; ++i) {
    features.push_back(static_cast<float>(stream.below(kTokens)));
  }
  for (int64_t i = 0; i < kRows; ++i) labels.push_back(static_cast<int32_t>(stream.below(kTokens)));

  Network network;
  torch::optim::SGD optimizer(network.parameters(), kRate);
  const auto ids = torch::from_blob(features.data(), {kRows, kLength}).to(torch::kLong);
  const auto targets = torch::from_blob(labels.data(), {kRows}, torch::kInt).to(torch::kLong);
  std::vector<double> ours, theirs;
  for (int64_t step = 0; step < steps; ++step) {
    theirs.push_back(seconds_of([&] {
      optimizer.zero_grad();
      torch::nn::functional::cross_entropy(network.forward(ids), targets).backward();
      optimizer.step();
    }));
    ours.push_back(seconds_of([&] {
      model->sgd_step(row, {features.data(), labels.data(), nullptr, kRows}, stream, kRate, 0);
    }));
  }
  fmt::print("{{\"hanse\": {:.6g}, \"libtorch\": {:.6g}}}\n", median(ours), median(theirs));
  return 0;
}
