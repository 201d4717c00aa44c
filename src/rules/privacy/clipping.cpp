#include "hanse/rules/privacy/clipping.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/uniform.hpp"
#include "hanse/rules/privacy/integer_noise.hpp"

namespace hanse {

namespace {

constexpr double kMostBound = 0x1p62;

double norm_of(std::span<const float> update) {
  std::array<double, 8> lanes{};
  for (std::size_t i = 0; i < update.size(); ++i) {
    const double u = update[i];
    lanes[i % lanes.size()] += u * u;
  }
  double squared = 0;
  for (const double lane : lanes) squared += lane;
  return std::sqrt(squared);
}

// Writes the integers of scale x update, and stops at the first sign that they are too long.
bool write_within(std::span<const float> update, double scale, int64_t bound,
                  std::span<int64_t> out) {
  const auto most = static_cast<Uint128>(bound) * static_cast<Uint128>(bound);
  const auto largest = static_cast<double>(bound);  // rounded: the integers decide
  Uint128 squares = 0;
  for (std::size_t i = 0; i < update.size(); ++i) {
    const double entry = static_cast<double>(update[i]) * scale;
    if (!(std::abs(entry) <= largest)) return false;
    const auto z = static_cast<int64_t>(entry);  // toward zero
    out[i] = z;
    squares += static_cast<Uint128>(static_cast<__int128>(z) * z);
    if (squares > most) return false;
  }
  return true;
}

[[noreturn]] void refuse_noise(double multiplier, int64_t bound) {
  throw InvalidArgument(
      fmt::format("the step is too small for the noise: {} times {} steps", multiplier, bound), "",
      "a larger step, or less noise");
}

}  // namespace

Lattice Lattice::of(double clip, int exponent) {
  const double bound = std::floor(std::ldexp(clip, -exponent));
  if (bound >= 1 && bound < kMostBound) return {exponent, static_cast<int64_t>(bound)};
  throw InvalidArgument(fmt::format("a clip of {} has {} steps of 2^{}", clip, bound, exponent), "",
                        bound < 1 ? "at least one: a smaller step" : "a larger step");
}

double Lattice::step() const { return std::ldexp(1.0, exponent); }

double Lattice::clip() const { return std::ldexp(static_cast<double>(bound), exponent); }

int64_t Lattice::noise_variance(double multiplier) const {
  if (multiplier == 0) return 0;
  if (!(multiplier * static_cast<double>(bound) < 0x1p29)) refuse_noise(multiplier, bound);
  // multiplier = digits 2^-places: the deviation is product / 2^places, whole + part / 2^places.
  int power = 0;
  auto digits = static_cast<uint64_t>(std::ldexp(std::frexp(multiplier, &power), 53));
  int places = 53 - power;
  for (; places > 0 && digits % 2 == 0; digits /= 2) --places;
  auto product = static_cast<Uint128>(digits) * static_cast<Uint128>(bound);
  constexpr int kMostPlaces = 60;  // of smaller multipliers the deviation is rounded up to these
  if (places > kMostPlaces) {
    const int cut = std::min(places - kMostPlaces, 127);
    product = (product >> cut) + 1;
    places = kMostPlaces;
  }
  if (places < 0) {
    product <<= -places;
    places = 0;
  }
  const Uint128 ones = (Uint128{1} << places) - 1;
  const Uint128 whole = product >> places, part = product & ones;
  // The square is whole^2 + (2 whole part + part^2 / 2^places) / 2^places.
  const Uint128 square = part * part;
  const Uint128 rest = 2 * whole * part + (square >> places);
  const bool is_whole = (square & ones) == 0 && (rest & ones) == 0;
  const Uint128 variance = whole * whole + (rest >> places) + (is_whole ? 0 : 1);
  if (variance > static_cast<Uint128>(kMostGaussianVariance)) refuse_noise(multiplier, bound);
  return static_cast<int64_t>(variance);
}

double Lattice::most_multiplier() const {
  constexpr double kMostDeviation = 0x1p28;
  static_assert(kMostDeviation * kMostDeviation == static_cast<double>(kMostGaussianVariance));
  return (kMostDeviation - 1) / static_cast<double>(bound);
}

int step_exponent(double deviation, int bits, int least) {
  return std::clamp(std::ilogb(deviation) - bits, least, 0);
}

bool is_within(std::span<const int64_t> vector, int64_t bound) {
  const auto most = static_cast<Uint128>(bound) * static_cast<Uint128>(bound);
  Uint128 squares = 0;
  for (const int64_t z : vector) {
    if (z > bound || z < -bound) return false;
    squares += static_cast<Uint128>(static_cast<__int128>(z) * z);
    if (squares > most) return false;
  }
  return true;
}

ClippedUpdate clip_to_lattice(std::span<const float> update, double weight, const Lattice& lattice,
                              std::span<int64_t> out) {
  ClippedUpdate result{.norm = norm_of(update)};
  if (!std::isfinite(result.norm)) {
    std::fill(out.begin(), out.end(), 0);
    return result;
  }
  const double clip = lattice.clip();
  result.is_clipped = result.norm > clip;
  const double shrunk = result.is_clipped ? weight * (clip / result.norm) : weight;
  double scale = std::ldexp(shrunk, -lattice.exponent);
  while (!write_within(update, scale, lattice.bound, out)) {
    if (++result.shortened == kMostShortened) {
      result.is_zeroed = true;
      std::fill(out.begin(), out.end(), 0);
      return result;
    }
    scale *= 1 - 0x1p-40;
  }
  return result;
}

void ClipCounts::count(const ClippedUpdate& update) {
  ++updates;
  clipped += update.is_clipped ? 1 : 0;
  shortened += update.shortened > 0 ? 1 : 0;
  zeroed += update.is_zeroed ? 1 : 0;
}

}  // namespace hanse
