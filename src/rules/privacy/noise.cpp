#include "hanse/rules/privacy/noise.hpp"

#include <cmath>

#include "hanse/base/uniform.hpp"
#include "hanse/base/wrapping.hpp"

namespace hanse {

namespace {

template <class Draw>
void add_samples(std::span<int64_t> sum, Draw draw) {
  for (int64_t& entry : sum) entry = wrapping_sum(entry, draw());
}

}  // namespace

Noise::Noise(Mechanism mechanism, int64_t variance) {
  if (variance == 0) return;
  switch (mechanism) {
    case Mechanism::kDiscreteGaussian: law_ = DiscreteGaussian(variance); return;
    case Mechanism::kSkellam: law_ = Skellam(variance); return;
    case Mechanism::kGaussian:
      law_ = Gaussian{std::sqrt(static_cast<double>(DiscreteGaussian(variance).variance()))};
      return;
  }
}

Noise Noise::by_strips(Mechanism mechanism, int64_t variance) {
  Noise noise(mechanism, variance);
  if (std::holds_alternative<DiscreteGaussian>(noise.law_)) noise.law_ = StripGaussian(variance);
  return noise;
}

void Noise::add(CipherStream& words, std::span<int64_t> sum) const {
  UniformWords uniform(words);
  if (const auto* gaussian = std::get_if<DiscreteGaussian>(&law_)) {
    add_samples(sum, [&] { return gaussian->draw(uniform); });
  } else if (const auto* strips = std::get_if<StripGaussian>(&law_)) {
    add_samples(sum, [&] { return strips->draw(words); });
  } else if (const auto* skellam = std::get_if<Skellam>(&law_)) {
    add_samples(sum, [&] { return skellam->draw(uniform); });
  } else if (const auto* floats = std::get_if<Gaussian>(&law_)) {
    add_samples(sum, [&] { return std::llrint(floats->deviation * standard_normal(words)); });
  }
}

int64_t Noise::share(Mechanism mechanism, int64_t variance, int64_t shares) {
  const int64_t share = variance / shares + (variance % shares != 0 ? 1 : 0);
  return mechanism == Mechanism::kSkellam ? share + share % 2 : share;
}

}  // namespace hanse
