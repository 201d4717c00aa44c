// Random words that nobody can tell without a key of 256 bits: ChaCha20 (Bernstein 2008), and keys
// made of keys by BLAKE2b, both from libsodium.
//
// As RandomStream, a stream is a pure function of what names it, here a key and a number: whoever
// draws gets the same words, in whatever order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace hanse {

// 256 bits; what held them is overwritten when the object goes.
class CipherKey {
 public:
  CipherKey() = default;  // of zeros: no key
  CipherKey(const CipherKey&) = default;
  CipherKey& operator=(const CipherKey&) = default;
  ~CipherKey();

  // Takes the system's random numbers (getrandom). Throws Error where it has none.
  static CipherKey of_system();
  // Makes a key of numbers that others may know: whoever does has the key.
  static CipherKey of_numbers(std::span<const uint64_t> numbers);

  // Another key for each number. It tells nothing of this key, nor of those of other numbers.
  CipherKey derived(uint64_t number) const;

  // For messages between ranks and for checkpoints: of_words(key.words()) == key.
  using Words = std::array<int64_t, 4>;
  Words words() const;
  static CipherKey of_words(const Words& words);

  std::span<const uint8_t, 32> bytes() const { return bytes_; }
  bool operator==(const CipherKey&) const = default;

 private:
  std::array<uint8_t, 32> bytes_{};
};

// A secret key and the public one beside it (X25519, Bernstein 2006).
class KeyPair {
 public:
  // Takes the system's random numbers, as CipherKey::of_system().
  static KeyPair of_system();

  // What others may know.
  const CipherKey::Words& for_others() const { return public_; }
  // The key that this pair and the one with that public key make, each of its own secret and the
  // other's public one. Throws Error where `others` is no public key.
  CipherKey shared_with(const CipherKey::Words& others) const;

 private:
  CipherKey secret_;
  CipherKey::Words public_{};
};

// The 64-bit words of a key and a number, from the first one on.
class CipherStream {
 public:
  explicit CipherStream(const CipherKey& key, uint64_t number = 0) : key_(key), number_(number) {}

  // 64 uniform bits. Cost: about 3 ns, with 64 words made at once.
  uint64_t next() {
    if (used_ == kBuffered) refill();
    return buffer_[used_++];
  }

 private:
  static constexpr std::size_t kBuffered = 64;  // libsodium is fast from 512 bytes on
  void refill();

  CipherKey key_;
  uint64_t number_;
  uint64_t filled_ = 0;  // times
  std::size_t used_ = kBuffered;
  std::array<uint64_t, kBuffered> buffer_{};
};

}  // namespace hanse
