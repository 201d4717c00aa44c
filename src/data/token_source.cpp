#include "token_source.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/log.hpp"

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
        min_samples_(std::max<int64_t>(min_samples, 1)) {
    survey();
  }

  const ClientLayout& layout() const override { return layout_; }

  void write(const SampleArrays& out) override {
    std::vector<int32_t> tokens;
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      const ClientTexts texts = reader_->read(static_cast<int64_t>(kept_[i]));
      tokens.clear();
      encode(texts.train, texts.where, tokens);
      auto train = std::ssize(tokens);
      encode(texts.test, texts.where, tokens);
      if (!reader_->has_test()) train = cut(train).train;
      const Tokens all(tokens);
      const ClientRanges& own = layout_.clients[i];
      const auto cut_at = static_cast<std::size_t>(train);
      write_windows(all.first(cut_at), own.begin, own.train_end, out);
      write_windows(all.subspan(cut_at), own.train_end, own.end, out);
    }
  }

 private:
  // Tokens of a client's training part and behind it of its test part.
  struct Parts {
    int64_t train = 0;
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

  Parts cut(int64_t tokens) const {
    const int64_t test = std::llround(data_.test_fraction * static_cast<double>(tokens));
    const int64_t kept = std::max<int64_t>(tokens - test, std::min<int64_t>(tokens, 2));
    return {kept, tokens - kept};
  }

  int64_t windows(int64_t tokens) const {
    const int64_t all = tokens < 2 ? 0 : (tokens - 2) / data_.stride + 1;
    return data_.max_samples > 0 ? std::min(all, data_.max_samples) : all;
  }

  void survey();
  void choose(const std::vector<Parts>& tokens);
  void write_windows(Tokens tokens, int64_t begin, int64_t end, const SampleArrays& out) const;

  std::unique_ptr<TextReader> reader_;
  std::unique_ptr<Vocabulary> vocabulary_;
  DataOptions data_;
  int64_t min_samples_;
  ClientLayout layout_;
  std::vector<std::size_t> kept_;  // the reader's clients, in the layout's order
};

void TokenSource::survey() {
  std::vector<Parts> tokens;
  for (int64_t c = 0; c < reader_->clients(); ++c) {
    const ClientTexts texts = reader_->read(c);
    const int64_t train = count_tokens(texts.train, texts.where);
    const int64_t test = count_tokens(texts.test, texts.where);
    tokens.push_back(reader_->has_test() ? Parts{train, test} : cut(train));
  }
  vocabulary_->freeze();
  layout_.shape = {data_.window};
  layout_.classes = vocabulary_->size();
  layout_.storage = layout_.classes <= 256 ? Storage::kToken : Storage::kFloat;
  choose(tokens);
}

void TokenSource::choose(const std::vector<Parts>& tokens) {
  std::vector<int64_t> train, test;
  for (const Parts& own : tokens) {
    const int64_t samples = windows(own.train);
    const bool trains = samples >= min_samples_;
    train.push_back(trains ? samples : 0);
    test.push_back(trains || own.train == 0 ? windows(own.test) : 0);
  }
  kept_ = lay_out(layout_, train, test);
  if (std::ssize(kept_) == layout_.held_out) {
    throw InvalidArgument(
        fmt::format("none of {} clients has {} training samples", tokens.size(), min_samples_),
        "data.path", "lower federation.min-samples or data.stride");
  }
  if (kept_.size() < tokens.size()) {
    notice(fmt::format("{} of {} clients have too little text and are left out",
                       tokens.size() - kept_.size(), tokens.size()));
  }
}

void TokenSource::write_windows(Tokens tokens, int64_t begin, int64_t end,
                                const SampleArrays& out) const {
  const auto window = static_cast<std::size_t>(data_.window);
  for (int64_t sample = begin; sample < end; ++sample) {
    const auto next = static_cast<std::size_t>(1 + (sample - begin) * data_.stride);
    const Tokens last = tokens.first(next).last(std::min(next, window));
    const auto write = [&](auto* values) {
      using T = std::remove_pointer_t<decltype(values)>;
      values = std::fill_n(values, window - last.size(), T{Vocabulary::kPadding});
      for (const int32_t token : last) *values++ = static_cast<T>(token);
    };
    std::byte* features = out.features + sample * layout_.sample_bytes();
    if (layout_.storage == Storage::kToken) {
      write(reinterpret_cast<uint8_t*>(features));
    } else {
      write(reinterpret_cast<float*>(features));
    }
    out.labels[sample] = tokens[next];
  }
}

}  // namespace

std::unique_ptr<ClientSource> make_token_source(std::unique_ptr<TextReader> reader,
                                                std::unique_ptr<Vocabulary> vocabulary,
                                                const DataOptions& data, int64_t min_samples) {
  if (data.window < 1 || data.stride < 1) {
    throw InvalidArgument(
        fmt::format("a window of {} and a stride of {}", data.window, data.stride),
        "data.window, data.stride", "both are at least 1");
  }
  return std::make_unique<TokenSource>(std::move(reader), std::move(vocabulary), data, min_samples);
}

}  // namespace hanse
