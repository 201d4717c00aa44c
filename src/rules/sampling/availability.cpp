#include "hanse/rules/sampling/availability.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "hanse/base/random.hpp"

namespace hanse {

namespace {

class IndependentAvailability final : public Availability {
 public:
  IndependentAvailability(int64_t clients, double probability)
      : probability_(probability), there_(static_cast<std::size_t>(clients), true) {}

  std::vector<int64_t> changes(int64_t round, uint64_t seed) override {
    RandomStream stream(seed, Purpose::kAvailability, static_cast<uint64_t>(round));
    std::vector<int64_t> changed;
    for (std::size_t client = 0; client < there_.size(); ++client) {
      const bool there = stream.uniform() < probability_;
      if (there != there_[client]) changed.push_back(static_cast<int64_t>(client));
      there_[client] = there;
    }
    return changed;
  }

 private:
  double probability_;
  std::vector<bool> there_;  // [M] in the round of the last call
};

class BlockAvailability final : public Availability {
 public:
  BlockAvailability(int64_t clients, int64_t blocks, int64_t rounds)
      : clients_(clients), blocks_(blocks), rounds_(rounds) {}

  std::vector<int64_t> changes(int64_t round, uint64_t) override {
    const int64_t block = (round - 1) / rounds_ % blocks_;
    std::vector<int64_t> changed;
    if (block_ < 0) {
      add(0, begin(block), changed);
      add(begin(block + 1), clients_, changed);
    } else if (block != block_) {
      add(begin(block_), begin(block_ + 1), changed);
      add(begin(block), begin(block + 1), changed);
    }
    block_ = block;
    return changed;
  }

 private:
  int64_t begin(int64_t block) const { return clients_ * block / blocks_; }

  static void add(int64_t begin, int64_t end, std::vector<int64_t>& changed) {
    for (int64_t client = begin; client < end; ++client) changed.push_back(client);
  }

  int64_t clients_;
  int64_t blocks_;
  int64_t rounds_;
  int64_t block_ = -1;  // of the last call; -1: everyone
};

class ScheduledAvailability final : public Availability {
 public:
  explicit ScheduledAvailability(std::span<const Presence> presences) {
    std::vector<Presence> sorted(presences.begin(), presences.end());
    std::sort(sorted.begin(), sorted.end(), [](const Presence& a, const Presence& b) {
      return a.client != b.client ? a.client < b.client : a.first < b.first;
    });
    for (std::size_t i = 0; i < sorted.size();) i = add_client(sorted, i);
  }

  std::vector<int64_t> changes(int64_t round, uint64_t) override {
    std::set<int64_t> changed;  // who flipped an odd number of times
    for (; !flips_.empty() && flips_.begin()->first <= round; flips_.erase(flips_.begin())) {
      const int64_t client = flips_.begin()->second;
      if (changed.erase(client) == 0) changed.insert(client);
    }
    return {changed.begin(), changed.end()};
  }

 private:
  // Whose successor is a number still: a schedule may say "for ever" by the largest one.
  static constexpr int64_t kLastRound = std::numeric_limits<int64_t>::max() - 1;

  // The flips of the client at sorted[i], there in round 0 as everyone is. Returns the first entry
  // of the next client.
  std::size_t add_client(const std::vector<Presence>& sorted, std::size_t i) {
    const int64_t client = sorted[i].client;
    int64_t gone = 1;  // the first round in which nothing so far has it there
    for (; i < sorted.size() && sorted[i].client == client; ++i) {
      const int64_t first = std::max<int64_t>(1, sorted[i].first);
      if (sorted[i].last < first) continue;
      if (first > gone) {
        flips_.emplace(gone, client);
        flips_.emplace(first, client);
      }
      gone = std::max(gone, std::min(sorted[i].last, kLastRound) + 1);
    }
    flips_.emplace(gone, client);
    return i;
  }

  std::multimap<int64_t, int64_t> flips_;  // the clients that come or go, by round
};

}  // namespace

std::unique_ptr<Availability> make_independent_availability(int64_t clients, double probability) {
  return std::make_unique<IndependentAvailability>(clients, probability);
}

std::unique_ptr<Availability> make_block_availability(int64_t clients, int64_t blocks,
                                                      int64_t rounds) {
  return std::make_unique<BlockAvailability>(clients, blocks, rounds);
}

std::unique_ptr<Availability> make_scheduled_availability(std::span<const Presence> presences) {
  return std::make_unique<ScheduledAvailability>(presences);
}

}  // namespace hanse
