// Words of a key: those of other programs' ChaCha20, and keys that tell nothing of each other.
#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/cipher.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/uniform.hpp"

namespace hanse {
namespace {

// The eight bytes as they stand in a keystream.
uint64_t word(std::array<uint8_t, 8> bytes) {
  uint64_t value = 0;
  for (std::size_t i = 8; i-- > 0;) value = value << 8 | bytes[i];
  return value;
}

uint64_t word_at(CipherStream stream, int64_t index) {
  for (int64_t i = 0; i < index; ++i) stream.next();
  return stream.next();
}

// RFC 8439, A.1: the first and the second block of a key of zeros; the ninth by openssl.
TEST(Cipher, WordsAreThoseOfChaCha20) {
  const CipherStream zeros{CipherKey()};
  EXPECT_EQ(word_at(zeros, 0), word({0x76, 0xb8, 0xe0, 0xad, 0xa0, 0xf1, 0x3d, 0x90}));
  EXPECT_EQ(word_at(zeros, 1), word({0x40, 0x5d, 0x6a, 0xe5, 0x53, 0x86, 0xbd, 0x28}));
  EXPECT_EQ(word_at(zeros, 8), word({0x9f, 0x07, 0xe7, 0xbe, 0x55, 0x51, 0x38, 0x7a}));
  EXPECT_EQ(word_at(zeros, 64), word({0x1c, 0x88, 0x22, 0xd5, 0x3c, 0xd1, 0xee, 0x7d}));
}

// By openssl: the key's bytes are 0 to 31, the number is 5.
TEST(Cipher, TheNumberIsTheNonce) {
  const CipherKey key = CipherKey::of_words(
      {0x0706050403020100, 0x0f0e0d0c0b0a0908, 0x1716151413121110, 0x1f1e1d1c1b1a1918});
  EXPECT_EQ(CipherStream(key, 5).next(), word({0x4f, 0x00, 0x19, 0x4a, 0x55, 0x49, 0xc1, 0xbb}));
  EXPECT_NE(CipherStream(key, 4).next(), CipherStream(key, 5).next());
}

TEST(Cipher, KeysOfOtherNumbersAreOtherKeys) {
  const auto of = [](uint64_t a, uint64_t b) { return CipherKey::of_numbers(std::array{a, b}); };
  std::set<CipherKey::Words> seen;
  for (const CipherKey& key : {of(1, 2), of(2, 1), of(1, 2).derived(0), of(1, 2).derived(1),
                               of(1, 2).derived(0).derived(1), of(2, 1).derived(0)}) {
    EXPECT_TRUE(seen.insert(key.words()).second);
    EXPECT_EQ(CipherKey::of_words(key.words()), key);
  }
  EXPECT_EQ(of(1, 2).derived(7), of(1, 2).derived(7));
}

TEST(Cipher, TheSystemsKeysAreAllDifferent) {
  EXPECT_NE(CipherKey::of_system(), CipherKey::of_system());
}

TEST(KeyPair, TwoPairsShareAKeyThatNoThirdHas) {
  const KeyPair a = KeyPair::of_system(), b = KeyPair::of_system(), c = KeyPair::of_system();
  const CipherKey key = a.shared_with(b.for_others());
  EXPECT_EQ(b.shared_with(a.for_others()), key);
  for (const CipherKey& other : {a.shared_with(c.for_others()), c.shared_with(a.for_others()),
                                 c.shared_with(b.for_others()), CipherKey()}) {
    EXPECT_NE(other, key);
  }
  EXPECT_THROW(a.shared_with({}), Error);  // a point of low order, with which all would share 0
}

TEST(Cipher, NormalNumbersHaveMeanZeroAndVarianceOne) {
  CipherStream stream{CipherKey::of_numbers(std::array<uint64_t, 1>{3})};
  double sum = 0, squares = 0;
  constexpr int kSamples = 10000;
  for (int i = 0; i < kSamples; ++i) {
    const double x = standard_normal(stream);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kSamples, 0, 5 / std::sqrt(kSamples));
  EXPECT_NEAR(squares / kSamples, 1, 5 * std::sqrt(2.0 / kSamples));
}

}  // namespace
}  // namespace hanse
