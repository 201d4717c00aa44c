#include "hanse/rules/privacy/secret.hpp"

#include <algorithm>

namespace hanse {

std::vector<int64_t> words_of(std::span<const CipherKey> keys) {
  std::vector<int64_t> words;
  for (const CipherKey& key : keys) {
    const auto of_key = key.words();
    words.insert(words.end(), of_key.begin(), of_key.end());
  }
  return words;
}

std::vector<CipherKey> keys_of(std::span<const int64_t> words) {
  std::vector<CipherKey> keys;
  CipherKey::Words of_key;
  for (; words.size() >= of_key.size(); words = words.subspan(of_key.size())) {
    std::copy_n(words.begin(), of_key.size(), of_key.begin());
    keys.push_back(CipherKey::of_words(of_key));
  }
  return keys;
}

void visit_keys(const std::string& name, std::vector<CipherKey>& keys, StateFields& fields) {
  auto words = words_of(keys);
  fields.all(name, words);
  if (fields.loads()) keys = keys_of(words);
}

void RoundSecret::visit(StateFields& fields) {
  auto words = present_.words();
  fields.fixed("present", std::span<int64_t>(words));
  present_ = CipherKey::of_words(words);
}

}  // namespace hanse
