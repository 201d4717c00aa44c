#include "text_source.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "file_signature.hpp"
#include "hanse/base/error.hpp"
#include "input_file.hpp"
#include "partition/split.hpp"

namespace hanse {

namespace {

using Tokens = std::span<const int32_t>;

class TokenSource final : public ClientSource {
 public:
  TokenSource(std::unique_ptr<TextReader> reader, std::unique_ptr<Vocabulary> vocabulary,
              const DataOptions& data, int64_t min_samples)
      : reader_(std::move(reader)),
        vocabulary_(std::move(vocabulary)),
        data_(data),
        every_(data.targets == TextTargets::kEvery),
        min_samples_(std::max<int64_t>(min_samples, 1)) {
    if (data_.stride == 0) data_.stride = every_ ? data_.window : 1;
    survey();
  }

  void write(const SampleArrays& out) override {
    std::vector<int32_t> tokens;
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      const ClientTexts texts = reader_->read(static_cast<int64_t>(kept_[i]));
      tokens.clear();
      encode(texts.train, texts.where, tokens);
      const auto train = std::ssize(tokens);
      encode(texts.test, texts.where, tokens);
      const Parts parts = cut(train, std::ssize(tokens) - train);
      const Tokens all(tokens);
      const auto of = [&](int64_t begin, int64_t count) {
        return all.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
      };
      const ClientRanges& own = layout_.clients[i];
      const int64_t test = parts.train + parts.validation;
      write_windows(of(0, parts.train), own.begin, own.train_end, out);
      write_windows(of(parts.train, parts.validation), own.train_end, own.test_begin(), out);
      write_windows(of(test, parts.test), own.test_begin(), own.end, out);
    }
  }

 private:
  // Tokens of a client's training part, its validation part behind it, and its test part.
  struct Parts {
    int64_t train = 0;
    int64_t validation = 0;
    int64_t test = 0;
  };

  int64_t count_tokens(const std::vector<std::string>& texts, const std::string& where) {
    int64_t tokens = texts.empty() ? 0 : std::ssize(texts) - 1;
    for (const std::string& text : texts) tokens += vocabulary_->count(text, where);
    return tokens;
  }

  void encode(const std::vector<std::string>& texts, const std::string& where,
              std::vector<int32_t>& out) const {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (i > 0) out.push_back(vocabulary_->separator());
      vocabulary_->encode(texts[i], where, out);
    }
  }

  // Cuts a client's training texts and its test texts behind them.
  Parts cut(int64_t train, int64_t test) const {
    if (!reader_->has_test()) {
      const int64_t kept = std::max<int64_t>(train - part_of(data_.test_fraction, train),
                                             std::min<int64_t>(train, 2));
      test = train - kept;
      train = kept;
    }
    const int64_t validation = std::min(part_of(data_.validation_fraction, train), train);
    return {train - validation, validation, test};
  }

  int64_t windows(int64_t tokens) const {
    const int64_t all = tokens < 2 ? 0 : (tokens - 2) / data_.stride + 1;
    return data_.max_samples > 0 ? std::min(all, data_.max_samples) : all;
  }

  void survey();
  void choose(const std::vector<Parts>& tokens);
  void write_windows(Tokens tokens, int64_t begin, int64_t end, const SampleArrays& out) const;
  void write_window(Tokens tokens, int64_t sample, int32_t* label, const SampleArrays& out) const;
  void write_sequence(Tokens tokens, int64_t sample, int32_t* labels,
                      const SampleArrays& out) const;
  void write_features(Tokens tokens, std::size_t padding, int64_t sample,
                      const SampleArrays& out) const;

  std::unique_ptr<TextReader> reader_;
  std::unique_ptr<Vocabulary> vocabulary_;
  DataOptions data_;
  bool every_;  // every token of a window has a target
  int64_t min_samples_;
  std::vector<std::size_t> kept_;  // the reader's clients, in the layout's order
};

void TokenSource::survey() {
  std::vector<Parts> tokens;
  for (int64_t c = 0; c < reader_->clients(); ++c) {
    const ClientTexts texts = reader_->read(c);
    const int64_t train = count_tokens(texts.train, texts.where);
    const int64_t test = count_tokens(texts.test, texts.where);
    tokens.push_back(cut(train, test));
  }
  vocabulary_->freeze();
  layout_.shape = {data_.window};
  layout_.classes = vocabulary_->size();
  layout_.record.vocabulary = vocabulary_->learnt();
  layout_.label_values = every_ ? data_.window : 1;
  layout_.storage = token_storage(layout_.classes);
  layout_.unread = reader_->unread();
  const std::string characters = vocabulary_->unread();
  if (!characters.empty()) layout_.unread.push_back(characters);
  choose(tokens);
}

void TokenSource::choose(const std::vector<Parts>& tokens) {
  std::vector<int64_t> train, test;  // validation is part of training
  for (std::size_t c = 0; c < tokens.size(); ++c) {
    const Parts& own = tokens[c];
    const bool trains = windows(own.train + own.validation) >= min_samples_;
    if (trains && windows(own.train) == 0) {
      throw InvalidArgument(
          fmt::format("client '{}' would have nothing to train on: it has {} "
                      "tokens beside those for tests",
                      reader_->name(static_cast<int64_t>(c)), own.train + own.validation),
          kValidationPart.key, "a smaller share, or fewer tokens, for validation");
    }
    train.push_back(trains ? windows(own.train) + windows(own.validation) : 0);
    test.push_back(trains || own.train + own.validation == 0 ? windows(own.test) : 0);
  }
  kept_ = lay_out(layout_, train, test);
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    const auto c = static_cast<int64_t>(kept_[i]);
    layout_.client_names.push_back(reader_->name(c));
    ClientRanges& own = layout_.clients[i];
    own.validation = windows(tokens[kept_[i]].validation);
    own.train_end -= own.validation;
  }
  if (std::ssize(kept_) == layout_.held_out) {
    throw InvalidArgument(
        fmt::format("none of {} clients has {} training samples", tokens.size(), min_samples_),
        "data.path", "lower federation.min-samples or data.stride");
  }
  for (std::size_t c = 0; c < tokens.size(); ++c) {
    if (train[c] + test[c] == 0) layout_.left_out.push_back(reader_->name(static_cast<int64_t>(c)));
  }
  if (kept_.size() < tokens.size()) {
    layout_.unread.push_back(fmt::format("{} of {} clients, which have too little text",
                                         tokens.size() - kept_.size(), tokens.size()));
  }
}

void TokenSource::write_windows(Tokens tokens, int64_t begin, int64_t end,
                                const SampleArrays& out) const {
  for (int64_t sample = begin; sample < end; ++sample) {
    const auto place = static_cast<std::size_t>((sample - begin) * data_.stride);
    int32_t* labels = out.labels + sample * layout_.label_values;
    every_ ? write_sequence(tokens.subspan(place), sample, labels, out)
           : write_window(tokens.first(place + 2), sample, labels, out);
  }
}

// Writes the tokens before the last one, which is the label.
void TokenSource::write_window(Tokens tokens, int64_t sample, int32_t* label,
                               const SampleArrays& out) const {
  const auto window = static_cast<std::size_t>(data_.window);
  const Tokens before = tokens.first(tokens.size() - 1);
  const Tokens last = before.last(std::min(before.size(), window));
  write_features(last, window - last.size(), sample, out);
  *label = tokens.back();
}

// Writes the first tokens, each with the next as its label; behind the text's end -1.
void TokenSource::write_sequence(Tokens tokens, int64_t sample, int32_t* labels,
                                 const SampleArrays& out) const {
  const auto window = static_cast<std::size_t>(data_.window);
  const Tokens used = tokens.first(std::min(tokens.size() - 1, window));
  write_features(used, 0, sample, out);
  labels = std::copy_n(tokens.begin() + 1, used.size(), labels);
  std::fill_n(labels, window - used.size(), -1);
}

// Writes `padding` on the left, and on the right to fill the window.
void TokenSource::write_features(Tokens tokens, std::size_t padding, int64_t sample,
                                 const SampleArrays& out) const {
  const auto behind = static_cast<std::size_t>(data_.window) - padding - tokens.size();
  std::byte* features = out.features + sample * layout_.sample_bytes();
  write_tokens(layout_.storage, features, [&](auto* values) {
    using T = std::remove_pointer_t<decltype(values)>;
    values = std::fill_n(values, padding, T{Vocabulary::kPadding});
    for (const int32_t token : tokens) *values++ = static_cast<T>(token);
    std::fill_n(values, behind, T{Vocabulary::kPadding});
  });
}

// ---- plays: each speaker is a client ----

constexpr const char* kSpeechFormat =
    "before each speech, after an empty line, stands a line NAME:";

std::string_view strip(std::string_view line) {
  const std::size_t end = line.find_last_not_of(" \t\r");
  return line.substr(0, end + 1);
}

class RoleReader final : public TextReader {
 public:
  explicit RoleReader(const std::string& path) : path_(path), file_(path), text_(file_.view()) {
    require_text(text_, path_, "plain text");
    check_encoding();
    find_speeches();
    if (speeches_.empty()) throw InvalidArgument("no role speaks", path_, kSpeechFormat);
  }

  int64_t clients() const override { return static_cast<int64_t>(speeches_.size()); }
  std::string name(int64_t client) const override {
    return names_[static_cast<std::size_t>(client)];
  }
  bool has_test() const override { return false; }
  std::vector<std::string> unread() const override {
    if (nobodys_ == 0) return {};
    return {counted(nobodys_, "paragraph", "paragraphs") + " before the first role speaks"};
  }

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

  // A paragraph without a name at its start belongs to the last speech.
  void add(std::string_view paragraph) {
    paragraph = strip(paragraph.substr(0, paragraph.find_last_not_of('\n') + 1));
    const std::size_t length = std::min(paragraph.find('\n'), paragraph.size());
    const std::string_view first = strip(paragraph.substr(0, length));
    if (first.size() > 1 && first.back() == ':') {
      const std::string_view name = first.substr(0, first.size() - 1);
      const auto [entry, is_new] = role_.emplace(name, speeches_.size());
      if (is_new) {
        names_.emplace_back(name);
        speeches_.emplace_back();
      }
      speaker_ = entry->second;
      paragraph.remove_prefix(std::min(length + 1, paragraph.size()));
    }
    if (speeches_.empty()) ++nobodys_;
    if (!speeches_.empty() && !paragraph.empty()) speeches_[speaker_].push_back(paragraph);
  }

  std::string path_;
  InputText file_;
  std::string_view text_;
  std::map<std::string, std::size_t, std::less<>> role_;  // name -> client
  std::vector<std::string> names_;                        // by client
  std::vector<std::vector<std::string_view>> speeches_;   // by client, in `text_`
  std::size_t speaker_ = 0;
  int64_t nobodys_ = 0;  // paragraphs before the first speech
};

}  // namespace

std::unique_ptr<ClientSource> make_token_source(std::unique_ptr<TextReader> reader,
                                                std::unique_ptr<Vocabulary> vocabulary,
                                                const DataOptions& data, int64_t min_samples) {
  if (data.window < 1 || data.stride < 0) {
    throw InvalidArgument(
        fmt::format("a window of {} and a stride of {}", data.window, data.stride),
        "data.window, data.stride", "both are at least 1");
  }
  if (data.window == 1 && data.targets == TextTargets::kEvery) {
    throw InvalidArgument("a window of 1 has one target alone", "data.window",
                          "use a longer one, or data.targets = last");
  }
  return std::make_unique<TokenSource>(std::move(reader), std::move(vocabulary), data, min_samples);
}

std::unique_ptr<ClientSource> make_role_source(const DataOptions& data, int64_t min_samples) {
  return make_token_source(std::make_unique<RoleReader>(data.path),
                           make_character_vocabulary(data.vocabulary, data.words), data,
                           min_samples);
}

}  // namespace hanse
