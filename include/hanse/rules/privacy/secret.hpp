// The secret of a private run, from which its noise and its draws come.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "hanse/base/cipher.hpp"
#include "hanse/base/state.hpp"

namespace hanse {

// A ratchet: the key of a round is a hash of that of the round before, which is then overwritten.
// So who finds the present key, in a checkpoint say, learns what is still to be drawn, and nothing
// of the rounds behind it. Keys that are needed longer are kept by who needs them.
class RoundSecret final : public Stateful {
 public:
  // What a round's words are for. Numbers are part of the results: never reuse or renumber one.
  enum class Use : uint64_t {
    kNext = 0,   // the next round's key
    kNoise = 1,  // on the sum; of a tree: the node that comes; of shares: derived() of each number
    kCount = 2,  // on how many updates are within the clip
    kDraw = 3,   // who takes part
    kMask = 4,   // what hides a rank's own sum of a round until noise is in it
    kSteps = 5,  // of clients: samples and noise; derived() of each client
  };

  // `first`: of round 1.
  explicit RoundSecret(const CipherKey& first) : present_(first) {}

  const CipherKey& present() const { return present_; }
  CipherKey key(Use use) const { return present_.derived(static_cast<uint64_t>(use)); }
  void move_on() { present_ = key(Use::kNext); }
  // Goes to a round whose key is known; a key of zeros: no round follows.
  void set(const CipherKey& present) { present_ = present; }

 private:
  void visit(StateFields& fields) override;

  CipherKey present_;
};

// The words of keys, one after another, and the keys of such words.
std::vector<int64_t> words_of(std::span<const CipherKey> keys);
std::vector<CipherKey> keys_of(std::span<const int64_t> words);
// Names keys in a state.
void visit_keys(const std::string& name, std::vector<CipherKey>& keys, StateFields& fields);

}  // namespace hanse
