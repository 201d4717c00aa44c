#include "hanse/client/smoothness.hpp"

#include <array>
#include <cmath>
#include <numeric>
#include <span>

#include <fmt/format.h>

#include "hanse/base/error.hpp"

namespace hanse {

namespace {

constexpr int64_t kMaxIterations = 1000;
constexpr double kTolerance = 1e-9;  // relative, on the eigenvalue

// Largest second derivative of the loss by the outputs.
double loss_curvature(const std::string& loss) {
  if (loss == "squared-error") return 1;
  return loss == "binary-logistic" ? 0.25 : 0.5;
}

// Adds in eight sums, so that the loop vectorizes; the order is fixed.
double dot(std::span<const float> x, const double* v) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> sums{};
  const std::size_t whole = x.size() / kLanes * kLanes;
  for (std::size_t j = 0; j < whole; j += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += static_cast<double>(x[j + lane]) * v[j + lane];
    }
  }
  for (std::size_t j = whole; j < x.size(); ++j)
    sums[j - whole] += static_cast<double>(x[j]) * v[j];
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

// Divides v by its norm and returns the norm; a vector of zeros stays one.
double normalize(std::span<double> v) {
  double squared = 0;
  for (const double value : v) squared += value * value;
  const double norm = std::sqrt(squared);
  if (norm > 0) {
    for (double& value : v) value /= norm;
  }
  return norm;
}

// out <- S v with S = 1/n sum_i x_i x_i^T, the second moment of samples [n, d]. Where v and out
// have d + 1 entries, every x_i ends with a 1 that is not stored.
void apply_moment(std::span<const float> samples, std::size_t d, std::span<const double> v,
                  std::span<double> out) {
  const bool bias = v.size() > d;
  std::fill(out.begin(), out.end(), 0.0);
  for (std::size_t begin = 0; begin < samples.size(); begin += d) {
    const std::span<const float> x = samples.subspan(begin, d);
    const double product = dot(x, v.data()) + (bias ? v[d] : 0);
    for (std::size_t j = 0; j < d; ++j) out[j] += product * static_cast<double>(x[j]);
    if (bias) out[d] += product;
  }
  const double inverse = static_cast<double>(d) / static_cast<double>(samples.size());  // 1/n
  for (double& value : out) value *= inverse;
}

// S's largest eigenvalue, from below; with a bias S has a row more. |S v| of normalized v grows to
// it, in the end by a geometric series whose rest is gain * ratio / (1 - ratio).
double largest_eigenvalue(std::span<const float> samples, std::size_t d, bool bias) {
  // Normal numbers: no structure of the data is orthogonal to them, unlike to a simple pattern.
  RandomStream random(0, Purpose::kInitialize);
  std::vector<double> v(d + (bias ? 1 : 0));
  for (double& value : v) value = random.normal();
  normalize(v);
  std::vector<double> image(v.size());
  double eigenvalue = 0;
  double gain = 0;
  for (int64_t iteration = 0; iteration < kMaxIterations; ++iteration) {
    apply_moment(samples, d, v, image);
    const double estimate = normalize(image);
    v.swap(image);
    const double ratio = (estimate - eigenvalue) / gain;
    gain = estimate - eigenvalue;
    eigenvalue = estimate;
    if (gain <= 0 || gain * ratio <= kTolerance * (1 - ratio) * estimate) break;
  }
  return eigenvalue;
}

}  // namespace

std::vector<double> smoothness_constants(const Federation& federation,
                                         const ModelOptions& options) {
  if (!is_linear(options)) {
    throw InvalidArgument(
        fmt::format("the smoothness of a client's loss is known for linear models only, "
                    "model.kind is \"{}\"",
                    options.kind),
        "sampler.kind", "lipschitz needs model.kind = linear; osmd learns its probabilities");
  }
  const auto d = static_cast<std::size_t>(federation.sample_values());
  std::vector<double> constants;
  std::vector<float> samples;
  for (int64_t client = 0; client < federation.clients(); ++client) {
    const SampleRange range = federation.train(client);
    samples.resize(static_cast<std::size_t>(range.size()) * d);
    federation.copy(range, samples.data());
    const double eigenvalue = largest_eigenvalue(samples, d, options.bias);
    constants.push_back(loss_curvature(options.loss) * eigenvalue);
  }
  return constants;
}

}  // namespace hanse
