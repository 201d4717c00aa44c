#include "hanse/rules/privacy/adaptive_clip.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "hanse/base/error.hpp"

namespace hanse {

int64_t AdaptiveClip::count_variance() const {
  return static_cast<int64_t>(std::ceil(4 * count_noise * count_noise));
}

double AdaptiveClip::next(double clip, int64_t noised_sum) const {
  const double share = std::clamp(static_cast<double>(noised_sum) / (2 * expected) + 0.5, 0.0, 1.0);
  return clip * std::exp(-rate * (share - quantile));
}

double AdaptiveClip::update_multiplier(double multiplier) const {
  if (multiplier < 2 * count_noise) {
    return 1 / std::sqrt(1 / (multiplier * multiplier) - 1 / (4 * count_noise * count_noise));
  }
  throw InvalidArgument(
      fmt::format("noise of {} on the count of clipped clients costs more than privacy.noise = {}",
                  count_noise, multiplier),
      "privacy.count-noise", fmt::format("above {}", multiplier / 2));
}

}  // namespace hanse
