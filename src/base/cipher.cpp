#include "hanse/base/cipher.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include <sodium.h>
#include <sys/random.h>

#include "hanse/base/error.hpp"

namespace hanse {

namespace {

static_assert(std::endian::native == std::endian::little);
static_assert(crypto_kdf_KEYBYTES == 32 && crypto_stream_chacha20_KEYBYTES == 32);

constexpr const char* kContext = "hanse-01";  // part of the results: never change it

// libsodium chooses its fastest code for the processor then.
void initialize() {
  static const bool is_ready = sodium_init() >= 0;
  if (!is_ready) throw Error("libsodium cannot be initialized");
}

}  // namespace

CipherKey::~CipherKey() { sodium_memzero(bytes_.data(), bytes_.size()); }

CipherKey CipherKey::of_system() {
  CipherKey key;
  const auto size = static_cast<ssize_t>(key.bytes_.size());
  if (getrandom(key.bytes_.data(), key.bytes_.size(), 0) == size) return key;
  throw Error("the system has no random numbers: " + errno_text());
}

CipherKey CipherKey::of_numbers(std::span<const uint64_t> numbers) {
  initialize();
  CipherKey key;
  crypto_generichash(key.bytes_.data(), key.bytes_.size(),
                     reinterpret_cast<const unsigned char*>(numbers.data()), numbers.size_bytes(),
                     nullptr, 0);
  return key;
}

CipherKey CipherKey::derived(uint64_t number) const {
  initialize();
  CipherKey key;
  crypto_kdf_derive_from_key(key.bytes_.data(), key.bytes_.size(), number, kContext, bytes_.data());
  return key;
}

CipherKey::Words CipherKey::words() const {
  Words words;
  std::memcpy(words.data(), bytes_.data(), bytes_.size());
  return words;
}

CipherKey CipherKey::of_words(const Words& words) {
  CipherKey key;
  std::memcpy(key.bytes_.data(), words.data(), key.bytes_.size());
  return key;
}

KeyPair KeyPair::of_system() {
  initialize();
  KeyPair pair;
  pair.secret_ = CipherKey::of_system();
  std::array<unsigned char, crypto_scalarmult_BYTES> known;
  crypto_scalarmult_base(known.data(), pair.secret_.bytes().data());
  std::memcpy(pair.public_.data(), known.data(), known.size());
  return pair;
}

// BLAKE2b of the shared point and both public keys, the smaller one first.
CipherKey KeyPair::shared_with(const CipherKey::Words& others) const {
  const CipherKey theirs = CipherKey::of_words(others);
  std::array<unsigned char, crypto_scalarmult_BYTES> point;
  if (crypto_scalarmult(point.data(), secret_.bytes().data(), theirs.bytes().data()) != 0) {
    throw Error("what a rank has sent is no public key");
  }
  std::array<uint64_t, 12> numbers;
  std::memcpy(numbers.data(), point.data(), point.size());
  std::ranges::copy(std::min(public_, others), numbers.begin() + 4);
  std::ranges::copy(std::max(public_, others), numbers.begin() + 8);
  CipherKey key = CipherKey::of_numbers(numbers);
  sodium_memzero(point.data(), point.size());
  sodium_memzero(numbers.data(), sizeof numbers);
  return key;
}

void CipherStream::refill() {
  initialize();
  buffer_.fill(0);
  auto* bytes = reinterpret_cast<unsigned char*>(buffer_.data());
  constexpr uint64_t kBlocks = sizeof buffer_ / 64;  // of the cipher, which counts them
  std::array<unsigned char, crypto_stream_chacha20_NONCEBYTES> nonce;
  std::memcpy(nonce.data(), &number_, nonce.size());
  crypto_stream_chacha20_xor_ic(bytes, bytes, sizeof buffer_, nonce.data(), kBlocks * filled_++,
                                key_.bytes().data());
  used_ = 0;
}

}  // namespace hanse
