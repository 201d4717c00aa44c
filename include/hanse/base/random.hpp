// Counter-based random streams (Philox 4x64-10, Salmon et al. 2011, from Random123).
//
// A stream is a pure function of (seed, purpose, round, client): nothing is shared, so no result
// depends on who draws first or where a client is trained. Streams of different keys are different
// permutations of different counters; they have nothing in common. No std:: distribution is used,
// because their algorithms differ between standard libraries.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace hanse {

// What a stream is for. Numbers are part of the results: never reuse or renumber one.
enum class Purpose : uint64_t {
  kPartition = 1,      // which samples a client gets
  kSplit = 2,          // a client's train/test split
  kInitialize = 3,     // initial parameters
  kSampling = 4,       // participation
  kShuffle = 5,        // order of a client's samples in a round
  kDropout = 6,        // dropout masks of a client in a round
  kData = 7,           // made up data
  kLoss = 8,           // which samples estimate a client's loss in a round
  kAvailability = 9,   // which clients are there in a round
  kDeadline = 10,      // order of the participants of a round with a time limit
  kEvaluation = 11,    // which clients an evaluation is of
  kAdapters = 12,      // initial adapters; seed: the first draw of the initial parameters
  kSimulated = 13,     // the update of a client that is not trained
  kAugmentation = 14,  // crops, flips, cutouts and mixtures of a client's images in a round
  kCompression = 15,   // entries and levels that a client sends in a round
  kStraggling = 16,    // is a participant of a round a straggler, and how far does it come
  kCopies = 17,        // the copy that a client takes in a round while all copies are equal

  kArms = 20,         // a bandit's arms
  kExploration = 21,  // arms pulled in a bandit's first phase
  kReward = 22,       // noise of a client's reward in a round; 0: in the first phase
  kLangevin = 23,     // start and noise of a bandit's regression oracle; client: 1 + its number
  kDictionary = 24,   // which of a client's pulls enter a bandit's dictionary in a synchronization
  kReturned = 25,     // the arm that a bandit returns

  kClock = 30,   // a client's speed and links on the virtual clock; round: 0
  kJitter = 31,  // how long a client's task takes; round: of rounds or of dispatches
  kLost = 32,    // does a client's task never come back?
  kOnOff = 33,   // when a client is on line; round: of its intervals, 0: where it begins

  // 35, 36 and 38 were those of private sums, whose words now come from cipher.hpp.
  kPoisson = 37,  // is a client in a Poisson draw?; round 0: the order of a cyclic sampler

  kAttack = 39,  // who is byzantine; round: 0; and what random attackers send
  kBucket = 40,  // which rows of a round are averaged before a robust rule sees them

  kStatistics = 45,  // who becomes a centre of k-means; round: 1000 starts + centre; client: sample
};

class RandomStream {
 public:
  RandomStream(uint64_t seed, Purpose purpose, uint64_t round = 0, uint64_t client = 0);

  // 64 uniform bits. Cost: a Philox block (about 10 ns) every fourth call.
  uint64_t next() {
    if (used_ == 4) refill();
    return block_[static_cast<std::size_t>(used_++)];
  }

  // Moves to value `index` of the stream (from 0), which next() then returns, whatever was drawn
  // before. below() and gamma() take as many values as they need.
  void seek(uint64_t index);

  // Uniform in [0, 1), a multiple of 2^-53.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  // Uniform in {0, ..., n-1} without bias (Lemire 2019). REQUIRES: n >= 1.
  int64_t below(int64_t n);

  // Standard normal (Box-Muller; two uniforms a value, so that the count of draws is fixed).
  double normal();

  // Gamma(shape, 1) (Marsaglia and Tsang 2000). REQUIRES: shape > 0.
  double gamma(double shape);

  // Fills `bytes` with uniform bits.
  void fill(std::span<uint8_t> bytes);

  // A uniform permutation of `values` in place (Fisher-Yates from the end). Cost O(n).
  template <class T>
  void shuffle(std::span<T> values) {
    for (std::size_t i = values.size(); i > 1; --i) {
      std::swap(values[i - 1], values[static_cast<std::size_t>(below(static_cast<int64_t>(i)))]);
    }
  }

 private:
  void refill();

  std::array<uint64_t, 2> key_;      // seed, purpose
  std::array<uint64_t, 4> counter_;  // block index, round, client, 0
  std::array<uint64_t, 4> block_{};
  int used_ = 4;  // values of block_ handed out
};

}  // namespace hanse
