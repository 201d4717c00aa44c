#include "hanse/rules/privacy/private_steps.hpp"

#include <cmath>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/uniform.hpp"
#include "hanse/rules/privacy/noise.hpp"
#include "hanse/rules/privacy/private_sum.hpp"

namespace hanse {

namespace {

// How many steps of the lattice rounding moves a sum by, in two runs together, at most.
double slack_of(double bound, int64_t n_params, int64_t most_samples) {
  const auto n = static_cast<double>(most_samples);
  const double of_sums = std::ceil(bound * (0x1.01p-11 + n * (n + 3) * 0x1p-52));
  return std::ceil(std::sqrt(static_cast<double>(n_params))) + 1 + of_sums;
}

}  // namespace

StepNoise StepNoise::of(const PrivacyOptions& options, double multiplier, int64_t n_params,
                        int64_t most_samples) {
  constexpr int kBits = 24, kLeast = -60;  // a deviation has so many; of the exponent
  StepNoise noise{.mechanism = options.mechanism};
  const double size = multiplier > 0 ? multiplier * options.clip : options.clip;
  const int exponent =
      options.step.exponent ? *options.step.exponent : step_exponent(size, kBits, kLeast);
  noise.lattice = Lattice::of(options.clip, exponent);
  const auto bound = static_cast<double>(noise.lattice.bound);
  const double slack = slack_of(bound, n_params, most_samples);
  if (2 * slack > bound) {
    throw InvalidArgument(
        fmt::format("rounding {} parameters to steps of 2^{} moves a sum by {:g} steps, and a clip "
                    "of {:g} has {:g}",
                    n_params, exponent, slack, options.clip, bound),
        "privacy.step", "a smaller step, or auto");
  }
  if (bound * static_cast<double>(most_samples) >= 0x1p61) {
    throw InvalidArgument(fmt::format("integers do not hold the sum of {} gradients of {:g} steps",
                                      most_samples, bound),
                          "privacy.step", "a larger step");
  }
  noise.clip = (bound - slack) * noise.lattice.step();
  const int64_t variance = noise.lattice.noise_variance(multiplier);
  noise.variance = variance > 0 ? Noise::share(noise.mechanism, variance, 1) : 0;
  noise.law = Noise::by_strips(noise.mechanism, noise.variance);
  return noise;
}

RoundNoise StepNoise::released() const {
  return {.bound = lattice.bound, .variance = variance, .share_variance = variance};
}

double StepNoise::deviation() const {
  return std::sqrt(static_cast<double>(variance)) * lattice.step();
}

void draw_batch(CipherStream& words, int64_t samples, int64_t batch, std::vector<int32_t>& taken) {
  taken.clear();
  const auto threshold = static_cast<uint64_t>(poisson_threshold(batch, samples));
  for (int64_t i = 0; i < samples; ++i) {
    if (uniform_below(words, uint64_t{1} << kPoissonBits) < threshold) {
      taken.push_back(static_cast<int32_t>(i));
    }
  }
}

void take_noised_mean(const StepNoise& noise, const CipherKey& key, std::span<const double> sum,
                      double expected, std::span<int64_t> integers, std::span<float> gradient) {
  const double steps = std::ldexp(1.0, -noise.lattice.exponent);
  for (std::size_t i = 0; i < sum.size(); ++i) integers[i] = std::llrint(steps * sum[i]);
  add_noise(noise.law, key, 0, 1, 0, integers.first(sum.size()));
  const double step = step_of_sum(noise.lattice, expected);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    gradient[i] = static_cast<float>(step * static_cast<double>(integers[i]));
  }
}

}  // namespace hanse
