#include "vocabulary.hpp"

#include <algorithm>
#include <charconv>

#include <boost/locale/utf.hpp>
#include <fmt/format.h>

#include "client_source.hpp"
#include "hanse/base/error.hpp"

namespace hanse {

namespace {

// Calls work(code point) for each character.
template <class Work>
void for_each_character(std::string_view text, const std::string& where, Work work) {
  for (std::size_t at = 0; at < text.size();) {
    const char32_t code = next_character(text, at);
    if (code == kNotUtf8) not_utf8(fmt::format("{}, byte {}", where, at));
    work(code);
  }
}

// The characters of the list, or of the texts, numbered from 1 by code point.
class CharacterVocabulary final : public Vocabulary {
 public:
  CharacterVocabulary(bool of_the_texts, const std::vector<std::string>& known)
      : is_fixed_(!of_the_texts), learns_(of_the_texts && known.empty()), number_of_(127) {
    for (const std::string& code : known) see(static_cast<char32_t>(code_in(code)));
    if (learns_) return;
    if (is_fixed_) std::fill(number_of_.begin() + 32, number_of_.end(), 1);
    CharacterVocabulary::freeze();
  }

  int64_t count(std::string_view text, const std::string& where) override {
    int64_t characters = 0;
    for_each_character(text, where, [&](char32_t code) {
      ++characters;
      if (!learns_ && (code >= number_of_.size() || number_of_[code] == kPadding)) ++unknown_;
      if (learns_) see(code);
    });
    return characters;
  }
  void freeze() override {
    number_of_[U'\n'] = 1;
    size_ = 1;
    for (int32_t& number : number_of_) {
      if (number > 0) number = size_++;
    }
  }
  void encode(std::string_view text, const std::string& where,
              std::vector<int32_t>& out) const override {
    for_each_character(text, where, [&](char32_t code) {
      out.push_back(code < number_of_.size() ? number_of_[code] : kPadding);
    });
  }
  std::string unread() const override {
    if (unknown_ == 0) return "";
    return counted(unknown_, "character", "characters") +
           (is_fixed_ ? " that data.vocabulary = ascii does not have"
                      : " that the run's vocabulary does not have");
  }
  std::vector<std::string> learnt() const override {
    std::vector<std::string> codes;
    for (std::size_t code = 0; !is_fixed_ && code < number_of_.size(); ++code) {
      if (number_of_[code] != kPadding) codes.push_back(fmt::format("U+{:04X}", code));
    }
    return codes;
  }
  int32_t separator() const override { return number_of_[U'\n']; }
  int64_t size() const override { return size_; }

 private:
  static int64_t code_in(const std::string& text) {
    int64_t code = -1;
    const char* begin = text.data() + std::min<std::size_t>(2, text.size());
    const auto read = std::from_chars(begin, text.data() + text.size(), code, 16);
    if (!text.starts_with("U+") || read.ptr != text.data() + text.size() || code < 0 ||
        code > 0x10FFFF) {
      throw InvalidArgument(fmt::format("'{}' is no character", text), "the run's vocabulary",
                            "a character stands there as U+0041");
    }
    return code;
  }
  void see(char32_t code) {
    if (code >= number_of_.size()) number_of_.resize(code + 1);
    number_of_[code] = 1;
  }

  bool is_fixed_;  // the characters are those of a list, whatever the texts have
  bool learns_;
  std::vector<int32_t> number_of_;  // [code points]; kPadding, and beyond: unknown
  int32_t size_ = 1;
  int64_t unknown_ = 0;  // such characters in the texts
};

class WordVocabulary final : public Vocabulary {
 public:
  WordVocabulary(int64_t size, std::vector<std::string> known)
      : wanted_(size), words_(std::move(known)) {}

  int64_t count(std::string_view text, const std::string& where) override {
    for_each_character(text, where, [](char32_t) {});
    int64_t words = 0;
    for_each_word(text, [&](std::string_view word) {
      ++counts_[std::string(word)];
      ++words;
    });
    return words;
  }

  void freeze() override {
    if (words_.empty()) words_ = most_frequent(counts_, wanted_);
    counts_.clear();
    for (const std::string& word : words_) {
      number_of_.emplace(word, kFirstWord + static_cast<int32_t>(number_of_.size()));
    }
  }

  void encode(std::string_view text, const std::string&, std::vector<int32_t>& out) const override {
    for_each_word(text, [&](std::string_view word) {
      const auto found = number_of_.find(std::string(word));
      out.push_back(found == number_of_.end() ? kUnknown : found->second);
    });
  }

  std::vector<std::string> learnt() const override { return words_; }
  int32_t separator() const override { return 2; }
  int64_t size() const override { return kFirstWord + static_cast<int64_t>(number_of_.size()); }

 private:
  static constexpr int32_t kUnknown = 1;
  static constexpr const char* kBlanks = " \t\r\n\f\v";

  template <class Work>
  static void for_each_word(std::string_view text, Work work) {
    for (;;) {
      const std::size_t begin = text.find_first_not_of(kBlanks);
      if (begin == std::string_view::npos) return;
      const std::size_t end = std::min(text.find_first_of(kBlanks, begin), text.size());
      work(text.substr(begin, end - begin));
      text.remove_prefix(end);
    }
  }

  int64_t wanted_;
  std::vector<std::string> words_;
  std::unordered_map<std::string, int64_t> counts_;
  std::unordered_map<std::string, int32_t> number_of_;
};

}  // namespace

char32_t next_character(std::string_view text, std::size_t& at) {
  using Utf8 = boost::locale::utf::utf_traits<char>;
  const char* next = text.data() + at;
  const char32_t code = Utf8::decode(next, text.data() + text.size());
  if (!boost::locale::utf::is_valid_codepoint(code)) return kNotUtf8;
  at = static_cast<std::size_t>(next - text.data());
  return code;
}

void not_utf8(const std::string& where) {
  throw InvalidArgument("the text is not UTF-8", where,
                        "save it as UTF-8, e.g. iconv -f LATIN1 -t UTF-8");
}

std::unique_ptr<Vocabulary> make_character_vocabulary(Characters characters,
                                                      std::vector<std::string> known) {
  return std::make_unique<CharacterVocabulary>(characters == Characters::kData, known);
}

std::unique_ptr<Vocabulary> make_word_vocabulary(int64_t size, std::vector<std::string> known) {
  return std::make_unique<WordVocabulary>(size, std::move(known));
}

std::vector<std::string> most_frequent(const std::unordered_map<std::string, int64_t>& counts,
                                       int64_t wanted) {
  std::vector<std::pair<int64_t, std::string>> words;  // minus the count, word
  for (const auto& [word, count] : counts) words.emplace_back(-count, word);
  std::ranges::sort(words);
  std::vector<std::string> found;
  for (auto& [count, word] : words) {
    if (std::ssize(found) < wanted) found.push_back(std::move(word));
  }
  return found;
}

}  // namespace hanse
