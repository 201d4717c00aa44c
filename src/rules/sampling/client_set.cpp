#include "hanse/rules/sampling/client_set.hpp"

#include <algorithm>
#include <bit>

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

}  // namespace hanse
