// Text as a sequence of tokens: characters or words, each a number below the vocabulary's size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hanse/data/dataset.hpp"
#include "hanse/data/options.hpp"

namespace hanse {

// The code point at `at`, which moves behind it; kNotUtf8, and `at` stays, when there is none.
inline constexpr char32_t kNotUtf8 = 0xFFFFFFFF;
char32_t next_character(std::string_view text, std::size_t& at);

// Throws InvalidArgument.
[[noreturn]] void not_utf8(const std::string& where);

class Vocabulary {
 public:
  static constexpr int32_t kPadding = 0;
  static constexpr int32_t kFirstWord = 3;  // of a vocabulary of words

  virtual ~Vocabulary() = default;
  // Learns from a text and returns the number of its tokens. REQUIRES: before freeze().
  virtual int64_t count(std::string_view text, const std::string& where) = 0;
  // Nothing is learnt from here on.
  virtual void freeze() {}
  // Appends the text's tokens. REQUIRES: after freeze().
  virtual void encode(std::string_view text, const std::string& where,
                      std::vector<int32_t>& out) const = 0;
  // What it has learnt, in the order of tokens: words, or characters as "U+000A". Empty: the list
  // is fixed. REQUIRES: after freeze().
  virtual std::vector<std::string> learnt() const { return {}; }
  // The texts' parts that it lacks, for the line at the start: "3 characters ...". Empty: nothing,
  // or only what is left out on purpose.
  virtual std::string unread() const { return ""; }
  // Stands between two texts of a client.
  virtual int32_t separator() const = 0;
  virtual int64_t size() const = 0;
};

// Token 0 is padding, and every character outside the list. kAscii: 1 is the line feed, 2 to 96 are
// the characters of codes 32 to 126. kData: the texts' characters by code point, from 1; where it
// is `known` what another one has learnt(), those.
std::unique_ptr<Vocabulary> make_character_vocabulary(Characters characters,
                                                      std::vector<std::string> known = {});

// Words between white space: 0 padding, 1 any other word, 2 the end of a text, from 3 on the `size`
// most frequent ones, equally frequent ones by their bytes; or those that are `known`.
std::unique_ptr<Vocabulary> make_word_vocabulary(int64_t size, std::vector<std::string> known = {});

// The `wanted` most frequent words, or all, the most frequent one first, equally frequent ones by
// their bytes.
std::vector<std::string> most_frequent(const std::unordered_map<std::string, int64_t>& counts,
                                       int64_t wanted);

// As few bytes a token as the vocabulary needs.
inline Storage token_storage(int64_t vocabulary) {
  if (vocabulary <= 1 << 8) return Storage::kToken;
  return vocabulary <= 1 << 16 ? Storage::kToken16 : Storage::kFloat;
}

// Calls write(first value) on tokens stored so.
template <class Write>
void write_tokens(Storage storage, std::byte* place, Write write) {
  switch (storage) {
    case Storage::kToken: return write(reinterpret_cast<uint8_t*>(place));
    case Storage::kToken16: return write(reinterpret_cast<uint16_t*>(place));
    default: return write(reinterpret_cast<float*>(place));
  }
}

}  // namespace hanse
