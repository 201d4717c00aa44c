#include "hanse/rules/privacy/private_sum.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"

namespace hanse {

void add_noise(const Noise& noise, const CipherKey& key, int64_t rank, int64_t ranks, int64_t begin,
               std::span<int64_t> entries) {
  constexpr int64_t kGroups = kNoiseBlock / kNoiseGroup;
  const int64_t end = begin + std::ssize(entries);
  std::array<int64_t, kNoiseGroup> before;  // noise of a group's entries that are in another part
  for (int64_t group = begin / kNoiseGroup; group * kNoiseGroup < end; ++group) {
    if (group / kGroups % ranks != rank) continue;
    const int64_t first = group * kNoiseGroup;
    const int64_t from = std::max(first, begin), to = std::min(first + kNoiseGroup, end);
    CipherStream words(key, static_cast<uint64_t>(group));
    before.fill(0);
    noise.add(words, std::span(before).first(to_index(from - first)));
    noise.add(words, entries.subspan(to_index(from - begin), to_index(to - from)));
  }
}

int64_t largest_cohort(const PrivacyTerms& terms) {
  if (terms.attendance == Attendance::kFull) return terms.clients;
  if (terms.attendance != Attendance::kPoisson) return terms.per_round;
  const auto expected = static_cast<double>(terms.per_round);
  const auto most = static_cast<int64_t>(std::ceil(expected + 10 * std::sqrt(expected) + 100));
  return std::min(most, terms.clients);
}

void check_range(int64_t cohort, const Lattice& lattice, int64_t variance) {
  const double steps = static_cast<double>(cohort) * static_cast<double>(lattice.bound) +
                       40 * std::sqrt(static_cast<double>(variance));
  const double value = steps * lattice.step();
  if (value < 0x1p18) return;
  throw InvalidArgument(
      fmt::format("a sum of {} updates of length {:g} with its noise may reach {:g}, at most {:g}",
                  cohort, lattice.clip(), value, 0x1p18),
      "privacy.clip", "a smaller clip, or less noise");
}

double step_of_sum(const Lattice& lattice, double expected) { return lattice.step() / expected; }

}  // namespace hanse
