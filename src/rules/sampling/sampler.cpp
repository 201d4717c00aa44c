#include "hanse/rules/sampling/sampler.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "hanse/base/error.hpp"

namespace hanse {

namespace {

constexpr int64_t kBlock = 512;  // clients that an entry of the Fenwick tree counts
constexpr int64_t kBlockWords = kBlock / 64;

}  // namespace

ClientSet::ClientSet(int64_t clients)
    : clients_(clients),
      size_(clients),
      words_(static_cast<std::size_t>((clients + 63) / 64), ~uint64_t{0}),
      members_(static_cast<std::size_t>((clients + kBlock - 1) / kBlock) + 1) {
  if (clients % 64 != 0) words_.back() = (uint64_t{1} << (clients % 64)) - 1;
  for (std::size_t i = 1; i < members_.size(); ++i) {  // entry i counts the last (i & -i) blocks
    const auto end = std::min(static_cast<int64_t>(i) * kBlock, clients);
    members_[i] = end - static_cast<int64_t>(i - (i & -i)) * kBlock;
  }
}

void ClientSet::toggle(int64_t client) {
  words_[static_cast<std::size_t>(client / 64)] ^= uint64_t{1} << (client % 64);
  const int64_t change = contains(client) ? 1 : -1;
  size_ += change;
  for (auto i = static_cast<std::size_t>(client / kBlock) + 1; i < members_.size(); i += i & -i) {
    members_[i] += change;
  }
}

int64_t ClientSet::select(int64_t k) const {
  if (full()) return k;
  std::size_t block = 0;  // blocks that end before the member
  for (auto step = std::bit_floor(members_.size() - 1); step > 0; step /= 2) {
    if (block + step < members_.size() && members_[block + step] <= k) {
      block += step;
      k -= members_[block];
    }
  }
  auto index = block * kBlockWords;
  while (std::popcount(words_[index]) <= k) k -= std::popcount(words_[index++]);
  uint64_t word = words_[index];
  for (; k > 0; --k) word &= word - 1;  // without its lowest member
  return static_cast<int64_t>(index) * 64 + std::countr_zero(word);
}

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

std::vector<double> heard(std::span<const double> numbers) {
  const auto sound = [](double one) { return std::abs(one) <= kLargestFeedback; };
  double largest = 0;
  for (const double one : numbers) largest = sound(one) ? std::max(largest, one) : largest;
  std::vector<double> taken(numbers.begin(), numbers.end());
  std::ranges::replace_if(
      taken, [&](double one) { return !sound(one); }, largest);
  return taken;
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
