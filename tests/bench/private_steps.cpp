// What private steps cost in processor time: clipped gradients beside plain steps, and noise a
// coordinate.
//
//   hanse-bench-private-steps [SECONDS]
//
// A line a network and batch: microseconds of a plain step and of a clipped sum, the median of
// pairs, and the ratio. Then nanoseconds a coordinate of each way to the discrete Gaussian.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "hanse/base/random.hpp"
#include "hanse/cli/start.hpp"
#include "hanse/model/model.hpp"
#include "hanse/model/threads.hpp"
#include "hanse/rules/privacy/private_sum.hpp"

namespace hanse {
namespace {

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <class Work>
double seconds_of(Work work) {
  const double start = processor_seconds();
  work();
  return processor_seconds() - start;
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
  return values[values.size() / 2];
}

void compare(const char* kind, const std::vector<int64_t>& shape, int64_t rows, double seconds) {
  ModelOptions options;
  options.kind = kind;
  const auto model = make_model(options, shape, 10);
  std::vector<float> row(static_cast<std::size_t>(model->n_params()));
  RandomStream stream(1, Purpose::kInitialize);
  model->initialize(row, stream);
  int64_t values = 1;
  for (const int64_t extent : shape) values *= extent;
  std::vector<float> features(static_cast<std::size_t>(rows * values));
  for (float& value : features) value = static_cast<float>(stream.normal());
  std::vector<int32_t> labels(static_cast<std::size_t>(rows));
  for (int32_t& label : labels) label = static_cast<int32_t>(stream.below(10));
  const Batch batch{.features = features.data(), .labels = labels.data(), .rows = rows};
  std::vector<double> sum(row.size()), plain, clipped, ratios;
  for (const double end = processor_seconds() + seconds; processor_seconds() < end;) {
    plain.push_back(seconds_of([&] { model->sgd_step(row, batch, stream, 1e-6, 0); }));
    clipped.push_back(
        seconds_of([&] { model->clipped_gradient(row, batch, {values}, stream, 0.1, sum); }));
    ratios.push_back(clipped.back() / plain.back());
  }
  std::printf("%-12s batch %4d   step %9.1f us   clipped %9.1f us   ratio %.2f\n", kind,
              static_cast<int>(rows), 1e6 * median(plain), 1e6 * median(clipped), median(ratios));
}

void draw(const char* name, const Noise& noise) {
  const CipherKey key = CipherKey::of_numbers(std::array<uint64_t, 1>{1});
  std::vector<int64_t> sum(1 << 20);
  const double seconds = seconds_of([&] { add_noise(noise, key, 0, 1, 0, sum); });
  std::printf("%-22s %6.1f ns a coordinate\n", name,
              1e9 * seconds / static_cast<double>(sum.size()));
}

int run(double seconds) {
  for (const int64_t rows : {20, 64, 256}) compare("mlp", {784}, rows, seconds);
  for (const int64_t rows : {20, 64}) compare("cnn-mcmahan", {1, 28, 28}, rows, seconds);
  for (const int64_t rows : {20, 64}) compare("lenet", {1, 28, 28}, rows, seconds);
  compare("linear", {784}, 64, seconds);
  compare("resnet18", {3, 32, 32}, 4, seconds);
  constexpr int64_t kVariance = int64_t{1} << 48;
  draw("discrete Gaussian", Noise(Mechanism::kDiscreteGaussian, kVariance));
  draw("the same by strips", Noise::by_strips(Mechanism::kDiscreteGaussian, kVariance));
  draw("float64 Gaussian", Noise(Mechanism::kGaussian, kVariance));
  return 0;
}

}  // namespace
}  // namespace hanse

extern "C" int hanse_main(int argc, char** argv, const hanse::Start&) {
  hanse::set_model_threads(1);
  return hanse::run(argc > 1 ? std::atof(argv[1]) : 1);
}
