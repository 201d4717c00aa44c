#include "hanse/protocol/sum_masks.hpp"

#include <map>
#include <span>

#include "hanse/base/cipher.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/wrapping.hpp"

namespace hanse {

namespace {

class SumMasks final : public RoundPart {
 public:
  explicit SumMasks(Communicator& comm) : rank_(comm.rank()) {
    const KeyPair mine = KeyPair::of_system();
    const int64_t ranks = comm.size();
    auto known = comm.gatherv(std::span<const int64_t>(mine.for_others()), 0);
    known.resize(to_index(ranks) * mine.for_others().size());
    comm.bcast(std::span(known), 0);
    const auto meet = [&](int64_t rank) {
      if (rank == rank_ || keys_.contains(rank)) return;
      CipherKey::Words theirs;
      std::copy_n(known.begin() + rank * std::ssize(theirs), theirs.size(), theirs.begin());
      keys_.emplace(rank, mine.shared_with(theirs));
    };
    for (int64_t away = 1; away < ranks; away *= 2) {
      meet((rank_ + away) % ranks);
      meet((rank_ - away + ranks) % ranks);
    }
  }

  void opens(int64_t round, UpdateSum& /*sum*/) override { round_ = round; }

  void closes(UpdateSum& sum) override {
    const std::span<int64_t> entries = sum.integers(0, sum.size());
    for (const auto& [rank, key] : keys_) {
      CipherStream words(key, static_cast<uint64_t>(round_));
      const uint64_t sign = rank > rank_ ? 1 : ~uint64_t{0};  // 1 or -1, modulo 2^64
      for (int64_t& entry : entries) {
        entry = wrapping_sum(entry, static_cast<int64_t>(sign * words.next()));
      }
    }
  }

 private:
  int64_t rank_;
  int64_t round_ = 0;
  std::map<int64_t, CipherKey> keys_;  // of the neighbours
};

}  // namespace

std::unique_ptr<RoundPart> make_sum_masks(Communicator& comm) {
  return std::make_unique<SumMasks>(comm);
}

}  // namespace hanse
