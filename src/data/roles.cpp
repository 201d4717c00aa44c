// Plays as plain text: who speaks is a client. data/README.md has the grammar.
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "input_file.hpp"
#include "token_source.hpp"

namespace hanse {

namespace {

constexpr const char* kFormat = "before each speech, after an empty line, stands a line NAME:";

std::string_view strip(std::string_view line) {
  const std::size_t end = line.find_last_not_of(" \t\r");
  return line.substr(0, end + 1);
}

class RoleReader final : public TextReader {
 public:
  explicit RoleReader(const std::string& path) : path_(path), file_(path), text_(file_.view()) {
    check_encoding();
    find_speeches();
    if (speeches_.empty()) throw InvalidArgument("no role speaks", path_, kFormat);
  }

  int64_t clients() const override { return static_cast<int64_t>(speeches_.size()); }
  bool has_test() const override { return false; }

  ClientTexts read(int64_t client) override {
    ClientTexts texts{.where = path_};
    for (const std::string_view speech : speeches_[static_cast<std::size_t>(client)]) {
      texts.train.emplace_back(speech);
      std::erase(texts.train.back(), '\r');
    }
    return texts;
  }

 private:
  void check_encoding() const {
    int64_t line = 1;
    for (std::size_t at = 0; at < text_.size();) {
      if (text_[at] == '\n') ++line;
      if (next_character(text_, at) == kNotUtf8) not_utf8(fmt::format("{}:{}", path_, line));
    }
  }

  void find_speeches() {
    std::string_view rest = text_;
    const char* paragraph = nullptr;  // the one being read
    while (!rest.empty()) {
      const std::size_t length = std::min(rest.find('\n'), rest.size());
      const bool blank = strip(rest.substr(0, length)).empty();
      if (blank && paragraph) {
        add({paragraph, static_cast<std::size_t>(rest.data() - paragraph)});
        paragraph = nullptr;
      } else if (!blank && !paragraph) {
        paragraph = rest.data();
      }
      rest.remove_prefix(std::min(length + 1, rest.size()));
    }
    if (paragraph) {
      add({paragraph, static_cast<std::size_t>(text_.data() + text_.size() - paragraph)});
    }
  }

  // A paragraph that begins with no name goes on with the last speech.
  void add(std::string_view paragraph) {
    paragraph = strip(paragraph.substr(0, paragraph.find_last_not_of('\n') + 1));
    const std::size_t length = std::min(paragraph.find('\n'), paragraph.size());
    const std::string_view first = strip(paragraph.substr(0, length));
    if (first.size() > 1 && first.back() == ':') {
      const std::string_view name = first.substr(0, first.size() - 1);
      const auto [entry, is_new] = role_.emplace(name, speeches_.size());
      if (is_new) speeches_.emplace_back();
      speaker_ = entry->second;
      paragraph.remove_prefix(std::min(length + 1, paragraph.size()));
    }
    if (!speeches_.empty() && !paragraph.empty()) speeches_[speaker_].push_back(paragraph);
  }

  std::string path_;
  InputText file_;
  std::string_view text_;
  std::map<std::string, std::size_t, std::less<>> role_;  // name -> client
  std::vector<std::vector<std::string_view>> speeches_;   // of each client, in `text_`
  std::size_t speaker_ = 0;
};

}  // namespace

std::unique_ptr<ClientSource> make_role_source(const DataOptions& data, int64_t min_samples) {
  return make_token_source(std::make_unique<RoleReader>(data.path),
                           make_character_vocabulary(data.vocabulary), data, min_samples);
}

}  // namespace hanse
