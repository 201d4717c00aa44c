#include "hanse/rules/sampling/sampler.hpp"

#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "hanse/base/error.hpp"

namespace hanse {

int64_t Draw::draws() const { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

double variance_estimate(const Draw& draw, std::span<const double> a) {
  const auto k = static_cast<double>(draw.draws());
  double sum = 0;
  for (std::size_t i = 0; i < draw.size(); ++i) {
    const double kq = k * draw.probabilities[i];
    sum += static_cast<double>(draw.counts[i]) * a[i] / (kq * kq);
  }
  return sum;
}

void check_per_round(int64_t per_round, int64_t clients, bool replacement) {
  if (per_round >= 1 && (replacement || per_round <= clients)) return;
  throw InvalidArgument(replacement
                            ? fmt::format("per-round {} is below 1", per_round)
                            : fmt::format("per-round {} is outside [1, {}]", per_round, clients),
                        "sampler.per-round", fmt::format("the federation has {} clients", clients));
}

void check_feedback(const Draw& draw, std::span<const double> a) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(a[i]) && a[i] >= 0) continue;
    throw InvalidArgument(
        fmt::format("the feedback of client {} is {}", draw.clients[i], number_text(a[i])),
        "feedback", "it is lambda^2 |g|^2: finite and not negative");
  }
}

}  // namespace hanse
