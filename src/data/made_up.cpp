// Made up data.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/random.hpp"
#include "hanse/data/dataset.hpp"
#include "vocabulary.hpp"

namespace hanse {

namespace {

constexpr double kNoise = 0.1;          // deviation of a target around <w*, x>
constexpr double kLargestScale = 10.0;  // max s_m

// The purpose of a stream of Purpose::kData in synthetic data, as its `round`. Numbers are part of
// the results: never reuse or renumber one.
enum class DataStream : uint64_t {
  kSamples = 0,       // a client's features and targets
  kCoefficients = 1,  // w*
  kClient = 2,        // dense: a client's scale s_m; support: its coordinate
  kClientModel = 3,   // synthetic-classification: a client's size, law and model
};

RandomStream data_stream(uint64_t seed, DataStream purpose, int64_t client = 0) {
  return RandomStream(seed, Purpose::kData, static_cast<uint64_t>(purpose),
                      static_cast<uint64_t>(client));
}

void check_number(const std::string& key, double value, const Range& range) {
  if (range.contains(value)) return;
  throw InvalidArgument(fmt::format("{} is {}", key, value), key, "it lies in " + range.text());
}

// exp of nu times the largest normal a stream can give, 8.6, is a finite float up to nu = 10.
void check_options(const DataOptions& options) {
  check_number("data.dimension", static_cast<double>(options.dimension), at_least(1));
  check_number("data.sigma", options.sigma, at_least(0));
  check_number("data.kappa", options.kappa, at_least(1));
  check_number("data.nu", options.nu, between(0, 10));
}

// w* [d]: N(10, 3^2), or exp(N(0, nu^2)).
std::vector<double> coefficients(const DataOptions& options, uint64_t seed) {
  RandomStream stream = data_stream(seed, DataStream::kCoefficients);
  std::vector<double> w(static_cast<std::size_t>(options.dimension));
  for (double& value : w) {
    const double normal = stream.normal();
    value = options.design == Design::kDense ? 10.0 + 3.0 * normal : std::exp(options.nu * normal);
  }
  return w;
}

// s [clients]: exp(N(0, sigma^2)), then all times one factor so that the largest is 10. The largest
// is subtracted in the exponent, where no sigma can overflow; a scale may become 0.
std::vector<double> client_scales(double sigma, int64_t clients, uint64_t seed) {
  std::vector<double> scales;
  for (int64_t m = 0; m < clients; ++m) {
    scales.push_back(data_stream(seed, DataStream::kClient, m).normal());
  }
  const double largest = *std::max_element(scales.begin(), scales.end());
  for (double& s : scales) s = kLargestScale * std::exp(sigma * (s - largest));
  return scales;
}

// One coordinate of a client's features: N(mean, deviation^2), independent of the others.
struct Coordinate {
  double mean = 0;
  double deviation = 0;
};

// N(0, s Sigma), or N(0, s^2 Sigma^2) as the authors' code, which passes s Sigma_jj as a deviation.
// Sigma_jj = kappa^((j - 1)/(d - 1) - 1) = kappa^(-(d - j)/(d - 1)), j = 1..d: Sigma_dd is 1 for
// every d.
std::vector<Coordinate> dense_law(const DataOptions& options, double s) {
  std::vector<Coordinate> law(static_cast<std::size_t>(options.dimension));
  const double steps = std::max(static_cast<double>(options.dimension - 1), 1.0);
  for (std::size_t j = 0; j < law.size(); ++j) {
    const double before_last = static_cast<double>(law.size() - 1 - j);
    const double scaled = s * std::pow(options.kappa, -before_last / steps);
    law[j].deviation = options.scale == FeatureScale::kCovariance ? std::sqrt(scaled) : scaled;
  }
  return law;
}

// N(1, 0.1^2) in one coordinate, 0 in all others.
std::vector<Coordinate> support_law(const DataOptions& options, RandomStream stream) {
  std::vector<Coordinate> law(static_cast<std::size_t>(options.dimension));
  law[static_cast<std::size_t>(stream.below(options.dimension))] = {.mean = 1, .deviation = 0.1};
  return law;
}

// Writes the features x [d] of one sample.
void draw_features(const std::vector<Coordinate>& law, RandomStream& stream, float* x) {
  for (std::size_t j = 0; j < law.size(); ++j) {
    x[j] = static_cast<float>(law[j].mean + law[j].deviation * stream.normal());
  }
}

// Writes the features x [d] of one sample and returns y = <w*, x> + noise, for x as stored.
float draw_sample(const std::vector<Coordinate>& law, const std::vector<double>& w,
                  RandomStream& stream, float* x) {
  draw_features(law, stream, x);
  double target = 0;
  for (std::size_t j = 0; j < law.size(); ++j) target += w[j] * static_cast<double>(x[j]);
  return static_cast<float>(target + kNoise * stream.normal());
}

// A dataset with room for clients * samples_per_client samples and `extra` more.
Dataset with_room(int64_t dimension, int64_t clients, int64_t samples_per_client,
                  int64_t extra = 0) {
  int64_t samples = 0;
  int64_t bytes = 0;
  if (clients < 1 || samples_per_client < 1 ||
      __builtin_mul_overflow(clients, samples_per_client, &samples) ||
      __builtin_add_overflow(samples, extra, &samples) ||
      __builtin_mul_overflow(dimension, int64_t{sizeof(float)}, &bytes) ||
      __builtin_mul_overflow(bytes, samples, &bytes)) {
    throw InvalidArgument(fmt::format("cannot make {} clients of {} samples of {} values", clients,
                                      samples_per_client, dimension),
                          "federation.clients, federation.samples, data.dimension",
                          "each is at least 1 and all fit in memory");
  }
  Dataset dataset{.shape = {dimension}};
  dataset.features.resize(static_cast<std::size_t>(bytes));
  dataset.groups.reserve(static_cast<std::size_t>(samples));
  return dataset;
}

// ---- synthetic(alpha, beta) ----

// A client's own law: the law of its features, and label = argmax (weights x + bias).
struct ClientLaw {
  std::vector<Coordinate> coordinates;
  std::vector<double> weights;  // [classes, d]
  std::vector<double> bias;     // [classes]
};

// Samples beyond the number that all have: the first number of a client's own stream.
int64_t extra_samples(RandomStream& own) {
  return static_cast<int64_t>(std::exp(4 + 2 * own.normal()));
}

// The law, from the stream's next numbers.
ClientLaw client_law(const DataOptions& options, RandomStream& stream) {
  const auto d = static_cast<std::size_t>(options.dimension);
  const auto classes = static_cast<std::size_t>(options.classes);
  ClientLaw law{.coordinates = std::vector<Coordinate>(d),
                .weights = std::vector<double>(classes * d),
                .bias = std::vector<double>(classes)};
  const double u = options.alpha * stream.normal();
  const double of_features = options.beta * stream.normal();
  for (std::size_t j = 0; j < d; ++j) {
    law.coordinates[j] = {.mean = of_features + stream.normal(),
                          .deviation = std::pow(static_cast<double>(j + 1), -0.6)};
  }
  for (double& value : law.weights) value = u + stream.normal();
  for (double& value : law.bias) value = u + stream.normal();
  return law;
}

// Writes the features [d] of a sample; returns the label of the features as stored.
int32_t draw_labelled(const ClientLaw& law, RandomStream& stream, float* x) {
  const std::size_t d = law.coordinates.size();
  draw_features(law.coordinates, stream, x);
  std::size_t best = 0;
  double highest = -std::numeric_limits<double>::infinity();
  for (std::size_t c = 0; c < law.bias.size(); ++c) {
    double score = law.bias[c];
    for (std::size_t j = 0; j < d; ++j) score += law.weights[c * d + j] * static_cast<double>(x[j]);
    if (score > highest) {
      highest = score;
      best = c;
    }
  }
  return static_cast<int32_t>(best);
}

// ---- random samples ----

// Product of the extents; refuses sizes that cannot be addressed.
int64_t checked_values(const std::vector<int64_t>& shape, int64_t samples) {
  int64_t values = 1;
  for (const int64_t extent : shape) {
    if (extent < 1 || values > std::numeric_limits<int64_t>::max() / extent) {
      throw InvalidArgument(fmt::format("data.shape has the extent {}", extent), "data.shape",
                            "every extent is at least 1 and a sample fits in memory");
    }
    values *= extent;
  }
  if (shape.empty() || samples < 1 || values > std::numeric_limits<int64_t>::max() / samples) {
    throw InvalidArgument(
        fmt::format("cannot make {} random samples of {} extents", samples, shape.size()),
        "data.shape", "set data.shape, federation.clients and federation.samples");
  }
  return values;
}

}  // namespace

Dataset make_synthetic_regression(const DataOptions& options, int64_t clients,
                                  int64_t samples_per_client, uint64_t seed) {
  check_options(options);
  Dataset dataset = with_room(options.dimension, clients, samples_per_client);
  const bool dense = options.design == Design::kDense;
  const auto w = coefficients(options, seed);
  const auto scales = dense ? client_scales(options.sigma, clients, seed) : std::vector<double>{};
  auto* x = reinterpret_cast<float*>(dataset.features.data());
  for (int64_t m = 0; m < clients; ++m) {
    const auto law = dense ? dense_law(options, scales[static_cast<std::size_t>(m)])
                           : support_law(options, data_stream(seed, DataStream::kClient, m));
    RandomStream stream = data_stream(seed, DataStream::kSamples, m);
    for (int64_t i = 0; i < samples_per_client; ++i, x += options.dimension) {
      dataset.targets.push_back(draw_sample(law, w, stream, x));
      dataset.groups.push_back(m);
    }
    dataset.group_names.push_back(std::to_string(m));
  }
  return dataset;
}

Dataset make_synthetic_classification(const DataOptions& options, int64_t clients,
                                      int64_t samples_per_client, uint64_t seed) {
  check_number("data.dimension", static_cast<double>(options.dimension), at_least(1));
  check_number("data.classes", static_cast<double>(options.classes), at_least(2));
  check_number("data.alpha", options.alpha, at_least(0));
  check_number("data.beta", options.beta, at_least(0));
  int64_t extra = 0;
  for (int64_t m = 0; m < clients; ++m) {
    RandomStream own = data_stream(seed, DataStream::kClientModel, m);
    extra += extra_samples(own);
  }
  Dataset dataset = with_room(options.dimension, clients, samples_per_client, extra);
  dataset.classes = options.classes;
  auto* x = reinterpret_cast<float*>(dataset.features.data());
  for (int64_t m = 0; m < clients; ++m) {
    RandomStream own = data_stream(seed, DataStream::kClientModel, m);
    const int64_t samples = samples_per_client + extra_samples(own);
    const ClientLaw law = client_law(options, own);
    RandomStream stream = data_stream(seed, DataStream::kSamples, m);
    for (int64_t i = 0; i < samples; ++i, x += options.dimension) {
      dataset.labels.push_back(draw_labelled(law, stream, x));
      dataset.groups.push_back(m);
    }
    dataset.group_names.push_back(std::to_string(m));
  }
  return dataset;
}

Dataset make_random(const std::vector<int64_t>& shape, int64_t classes, int64_t samples,
                    uint64_t seed, int64_t tokens) {
  if (classes < 0 || classes > std::numeric_limits<int32_t>::max()) {
    throw InvalidArgument(fmt::format("data.classes is {}", classes), "data.classes",
                          "at least 1; 0 for regression");
  }
  const Storage storage = tokens > 0 ? token_storage(tokens) : Storage::kByte;
  Dataset dataset{.shape = shape, .storage = storage, .classes = classes};
  const int64_t values = checked_values(shape, samples) * samples;
  dataset.features.resize(static_cast<std::size_t>(values) *
                          static_cast<std::size_t>(storage_bytes(storage)));
  RandomStream stream(seed, Purpose::kData);
  if (tokens > 0) {
    write_tokens(storage, dataset.features.data(), [&](auto* out) {
      using T = std::remove_pointer_t<decltype(out)>;
      for (int64_t i = 0; i < values; ++i) out[i] = static_cast<T>(stream.below(tokens));
    });
  } else {
    stream.fill({reinterpret_cast<uint8_t*>(dataset.features.data()), dataset.features.size()});
  }
  for (int64_t i = 0; i < samples; ++i) {
    if (classes == 0) {
      dataset.targets.push_back(static_cast<float>(stream.next() >> 40) * 0x1p-24F);
    } else {  // the first ones make every class appear
      dataset.labels.push_back(static_cast<int32_t>(i < classes ? i : stream.below(classes)));
    }
  }
  return dataset;
}

}  // namespace hanse
