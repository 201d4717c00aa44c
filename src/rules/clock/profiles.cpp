#include "hanse/rules/clock/profiles.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/random.hpp"

namespace hanse {

namespace {

// The draws of a client's stream. Each has two values of it, used or not, so that none depends on
// how the others are distributed.
enum class Place : uint64_t { kSpeed, kDown, kUp, kScore };

RandomStream stream_at(uint64_t seed, std::size_t client, Place place) {
  RandomStream stream(seed, Purpose::kClock, 0, client);
  stream.seek(2 * static_cast<uint64_t>(place));
  return stream;
}

double drawn(const Distribution& of, uint64_t seed, std::size_t client, Place place) {
  if (of.is_constant()) return of.a;
  RandomStream stream = stream_at(seed, client, place);
  switch (of.kind) {
    case DistributionKind::kConstant: break;
    case DistributionKind::kUniform: return of.a + (of.b - of.a) * stream.uniform();
    case DistributionKind::kLognormal: return std::exp(of.a + of.b * stream.normal());
    case DistributionKind::kHalfnormal: return of.a + of.b * std::abs(stream.normal());
    case DistributionKind::kExponential: return -of.a * std::log(1 - stream.uniform());
    case DistributionKind::kPareto: return of.b * std::pow(1 - stream.uniform(), -1 / of.a);
  }
  return of.a;
}

// Phi^-1(p), 0 < p < 1: Abramowitz and Stegun 26.2.23 (4.5e-4), then two steps of Halley's method.
double normal_quantile(double p) {
  const double tail = std::min(p, 1 - p);
  const double t = std::sqrt(-2 * std::log(tail));
  double x = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                     (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  for (int step = 0; step < 2; ++step) {
    const double error = tail - 0.5 * std::erfc(x / std::numbers::sqrt2);
    const double u = error * std::sqrt(2 * std::numbers::pi) * std::exp(x * x / 2);
    x -= u / (1 + x * u / 2);
  }
  return p < 0.5 ? -x : x;
}

// The clients in ascending order of their values, equal ones by id.
template <class T>
std::vector<std::size_t> ascending(std::span<const T> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  return order;
}

// r z(n_i) + sqrt(1 - r^2) N_i, z(n_i) = Phi^-1((rank of n_i - 1/2) / M).
std::vector<double> scores(double r, std::span<const int64_t> samples, uint64_t seed) {
  std::vector<double> score(samples.size());
  const auto order = ascending(samples);
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const double p = (static_cast<double>(rank) + 0.5) / static_cast<double>(order.size());
    const std::size_t client = order[rank];
    const double noise = stream_at(seed, client, Place::kScore).normal();
    score[client] = r * normal_quantile(p) + std::sqrt(1 - r * r) * noise;
  }
  return score;
}

// Gives the k-th smallest factor to the client with the k-th smallest score.
void correlate(double r, std::span<const int64_t> samples, uint64_t seed,
               std::vector<double>& factors) {
  std::vector<double> sorted = factors;
  std::sort(sorted.begin(), sorted.end());
  const auto order = ascending(std::span<const double>(scores(r, samples, seed)));
  for (std::size_t k = 0; k < order.size(); ++k) factors[order[k]] = sorted[k];
}

// A link may be infinitely fast.
void check_profile(const ClientProfile& profile, std::size_t client) {
  const auto refuse = [&](const char* what, double value) {
    throw InvalidArgument(fmt::format("{} of {}", what, number_text(value)),
                          fmt::format("client {}", client), "it must be above 0 and finite");
  };
  if (!(profile.sample_s > 0 && std::isfinite(profile.sample_s))) {
    refuse("a sample time", profile.sample_s);
  }
  if (!(profile.down_bps > 0)) refuse("a download rate", profile.down_bps);
  if (!(profile.up_bps > 0)) refuse("an upload rate", profile.up_bps);
  if (!(profile.latency_s >= 0 && std::isfinite(profile.latency_s))) {
    refuse("a latency", profile.latency_s);
  }
}

std::vector<ClientProfile> drawn_profiles(const ClockOptions& options,
                                          std::span<const int64_t> samples, uint64_t seed) {
  const bool alike = options.speed.is_constant() && options.down.mbit.is_constant() &&
                     options.up.mbit.is_constant();
  std::vector<double> factors(alike ? 1 : samples.size());
  for (std::size_t i = 0; i < factors.size(); ++i) {
    factors[i] = drawn(options.speed, seed, i, Place::kSpeed);
  }
  const bool ordered = options.size_correlation != 0 && !options.speed.is_constant();
  if (ordered) correlate(options.size_correlation, samples, seed, factors);
  std::vector<ClientProfile> rows(factors.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] = {.sample_s = options.sample_seconds * factors[i],
               .down_bps = 1e6 * drawn(options.down.mbit, seed, i, Place::kDown),
               .up_bps = 1e6 * drawn(options.up.mbit, seed, i, Place::kUp),
               .latency_s = options.latency_ms / 1e3};
  }
  return rows;
}

}  // namespace

ClientProfiles::ClientProfiles(const ClockOptions& options, std::span<const int64_t> samples,
                               uint64_t seed)
    : ClientProfiles(options, drawn_profiles(options, samples, seed), seed) {}

ClientProfiles::ClientProfiles(const ClockOptions& options, std::vector<ClientProfile> rows,
                               uint64_t seed)
    : rows_(std::move(rows)),
      backward_factor_(options.backward_factor),
      jitter_(options.jitter),
      seed_(seed) {
  for (std::size_t i = 0; i < rows_.size(); ++i) check_profile(rows_[i], i);
}

Phases ClientProfiles::durations(int64_t client, int64_t samples, RowBytes bytes,
                                 int64_t number) const {
  const ClientProfile& p = profile(client);
  double compute = backward_factor_ * p.sample_s * static_cast<double>(samples);
  if (jitter_ > 0 && number > 0) {
    RandomStream stream(seed_, Purpose::kJitter, static_cast<uint64_t>(number),
                        static_cast<uint64_t>(client));
    compute *= std::exp(jitter_ * stream.normal() - jitter_ * jitter_ / 2);
  }
  return {.down = ticks_of(p.latency_s + 8 * static_cast<double>(bytes.down) / p.down_bps, client),
          .compute = ticks_of(compute, client),
          .up = ticks_of(p.latency_s + 8 * static_cast<double>(bytes.up) / p.up_bps, client)};
}

}  // namespace hanse
