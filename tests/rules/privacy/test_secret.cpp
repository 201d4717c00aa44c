// The secret of a run: what a round's key tells of the others, and how it goes on.
#include <array>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/rules/privacy/secret.hpp"

namespace hanse {
namespace {

using Use = RoundSecret::Use;

CipherKey first() { return CipherKey::of_numbers(std::array<uint64_t, 2>{1, 2}); }

TEST(RoundSecret, EveryRoundAndUseHasAKeyOfItsOwn) {
  RoundSecret secret(first());
  std::set<CipherKey::Words> seen;
  for (int round = 1; round <= 50; ++round) {
    for (const Use use : {Use::kNoise, Use::kCount, Use::kDraw, Use::kMask}) {
      EXPECT_TRUE(seen.insert(secret.key(use).words()).second);
    }
    EXPECT_TRUE(seen.insert(secret.present().words()).second);
    secret.move_on();
  }
}

TEST(RoundSecret, AStateGoesOnAndHasThePresentKeyAlone) {
  RoundSecret secret(first());
  for (int round = 0; round < 3; ++round) secret.move_on();
  State state;
  secret.save(state);
  ASSERT_EQ(state.arrays().size(), 1);
  RoundSecret other{CipherKey()};
  other.load(state);
  EXPECT_EQ(other.present(), secret.present());
  EXPECT_EQ(other.key(Use::kNext), secret.key(Use::kNext));
}

TEST(RoundSecret, KeysAreTheirWords) {
  const std::vector<CipherKey> keys{first(), first().derived(1), first().derived(2)};
  EXPECT_EQ(words_of(keys).size(), 12);
  EXPECT_EQ(keys_of(words_of(keys)), keys);
  EXPECT_TRUE(keys_of({}).empty());
}

}  // namespace
}  // namespace hanse
