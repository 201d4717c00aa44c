#include "hanse/rules/sampling/availability.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "hanse/base/random.hpp"

namespace hanse {

Availability make_independent_availability(int64_t clients, double probability) {
  // [M] who was there in the round of the last call
  std::vector<bool> was_there(static_cast<std::size_t>(clients), true);
  return [probability, was_there](int64_t round, uint64_t seed) mutable {
    RandomStream stream(seed, Purpose::kAvailability, static_cast<uint64_t>(round));
    std::vector<int64_t> changed;
    for (std::size_t client = 0; client < was_there.size(); ++client) {
      const bool there = stream.uniform() < probability;
      if (there != was_there[client]) changed.push_back(static_cast<int64_t>(client));
      was_there[client] = there;
    }
    return changed;
  };
}

Availability make_block_availability(int64_t clients, int64_t blocks, int64_t rounds) {
  // `last` is the one of the last call; -1: everyone.
  return [clients, blocks, rounds, last = int64_t{-1}](int64_t round, uint64_t) mutable {
    std::vector<int64_t> changed;
    const auto add_blocks = [&](int64_t begin, int64_t end) {
      const int64_t after = clients * end / blocks;
      for (int64_t client = clients * begin / blocks; client < after; ++client) {
        changed.push_back(client);
      }
    };
    const int64_t block = (round - 1) / rounds % blocks;
    if (last < 0) {
      add_blocks(0, block);
      add_blocks(block + 1, blocks);
    } else if (block != last) {
      add_blocks(last, last + 1);
      add_blocks(block, block + 1);
    }
    last = block;
    return changed;
  };
}

namespace {

class Schedule {
 public:
  explicit Schedule(std::span<const Presence> presences) {
    for (const Presence& presence : presences) {
      named_[presence.client] = {};
      due_.insert(presence.client);
      if (presence.last < presence.first) continue;
      flips_.emplace(presence.first, Flip{presence.client, 1});
      flips_.emplace(std::min(presence.last, kLastRound) + 1, Flip{presence.client, -1});
    }
  }

  std::vector<int64_t> operator()(int64_t round, uint64_t) {
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
  // The last round whose successor is a number: a schedule may say "for ever" by the largest one.
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

Availability make_scheduled_availability(std::span<const Presence> presences) {
  return Schedule(presences);
}

}  // namespace hanse
