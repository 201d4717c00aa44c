#include "hanse/rules/sampling/availability.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

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
    for (const Presence& presence : presences) {
      named_[presence.client] = {};
      due_.insert(presence.client);
      if (presence.last < presence.first) continue;
      flips_.emplace(presence.first, Flip{presence.client, 1});
      flips_.emplace(std::min(presence.last, kLastRound) + 1, Flip{presence.client, -1});
    }
  }

  std::vector<int64_t> changes(int64_t round, uint64_t) override {
    for (; !flips_.empty() && flips_.begin()->first <= round; flips_.erase(flips_.begin())) {
      const Flip& flip = flips_.begin()->second;
      named_[flip.client].presences += flip.change;
      due_.insert(flip.client);
    }
    std::vector<int64_t> changed;
    for (const int64_t id : std::exchange(due_, {})) {
      Client& client = named_[id];
      if (client.there != (client.presences > 0)) changed.push_back(id);
      client.there = client.presences > 0;
    }
    return changed;
  }

 private:
  // Whose successor is a number still: a schedule may say "for ever" by the largest one.
  static constexpr int64_t kLastRound = std::numeric_limits<int64_t>::max() - 1;

  struct Flip {
    int64_t client;
    int64_t change;  // of its presences
  };
  struct Client {
    int64_t presences = 0;  // that hold the round of the last call
    bool there = true;      // in that round
  };

  std::multimap<int64_t, Flip> flips_;  // by round
  std::map<int64_t, Client> named_;
  std::set<int64_t> due_;  // clients to look at in the next call
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
