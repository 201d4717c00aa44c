#include <algorithm>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "client_source.hpp"
#include "clients/tff_file.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/text.hpp"
#include "vocabulary.hpp"

namespace hanse {

namespace {

constexpr const char* kTitle = "title";

// One client's texts in one file, with a list of tags for each.
struct TaggedTexts {
  std::string where;
  std::vector<std::string> texts, tags;
};

std::vector<std::string> read_texts(const hdf5::Dataset& dataset) {
  if (dataset.size() == 0) return {};
  if (dataset.type().kind != hdf5::Kind::kText) {
    throw InvalidArgument("texts are expected, these are none", dataset.file(),
                          "set data.feature-column and data.label-column");
  }
  return dataset.texts();
}

class TagSource final : public ClientSource {
 public:
  TagSource(std::unique_ptr<TffPair> files, std::string features,
            const std::vector<std::string>& names, const DataOptions& data, uint64_t seed)
      : files_(std::move(files)),
        features_(std::move(features)),
        data_(data),
        seed_(seed),
        words_(make_word_vocabulary(data.vocabulary_size, data.words)) {
    has_title_ =
        data.feature_column.empty() && features_ != kTitle && std::ranges::count(names, kTitle) > 0;
    layout_.unread =
        unread_datasets(names, {features_, data.label_column, has_title_ ? kTitle : features_});
    read_input([&] { survey(); });
  }

  void write(const SampleArrays& out) override {
    read_input([&] {
      for (std::size_t i = 0; i < order_.size(); ++i) {
        const ClientRanges& own = layout_.clients[i];
        const int64_t train_end = files_->has_test() ? own.test_begin() : own.end;
        write_part(0, order_[i], own.begin, out);
        write_part(1, order_[i], train_end, out);
      }
    });
    split_clients(layout_, test_fraction(), data_.validation_fraction, seed_, out);
  }

 private:
  double test_fraction() const { return files_->has_test() ? 0 : data_.test_fraction; }

  TaggedTexts read(int part, std::size_t client) const {
    const auto c = static_cast<int64_t>(client);
    const auto found = files_->dataset(part, c, features_);
    if (!found) return {};
    TaggedTexts all{.where = found->file(), .texts = read_texts(*found), .tags = {}};
    if (has_title_) {
      const std::vector<std::string> titles = read_texts(*files_->dataset(part, c, kTitle));
      require_as_many(all, titles, kTitle);
      for (std::size_t i = 0; i < titles.size(); ++i) all.texts[i] += " " + titles[i];
    }
    all.tags = read_texts(*files_->dataset(part, c, data_.label_column));
    require_as_many(all, all.tags, data_.label_column);
    return all;
  }

  static void require_as_many(const TaggedTexts& all, const std::vector<std::string>& others,
                              const std::string& name) {
    if (others.size() == all.texts.size()) return;
    throw InvalidArgument(fmt::format("{} texts, but {} {}", all.texts.size(), others.size(), name),
                          all.where, "every text has one");
  }

  void survey();
  void keep_tags(const std::unordered_map<std::string, int64_t>& counts);
  void write_part(int part, std::size_t client, int64_t begin, const SampleArrays& out) const;

  std::unique_ptr<TffPair> files_;
  std::string features_;
  DataOptions data_;
  uint64_t seed_;
  std::unique_ptr<Vocabulary> words_;
  bool has_title_ = false;
  std::unordered_map<std::string, std::size_t> number_of_;  // by tag
  std::vector<std::size_t> order_;                          // the files' clients, as laid out
};

void TagSource::survey() {
  std::unordered_map<std::string, int64_t> counts;
  std::vector<int64_t> sizes[2];
  for (int64_t c = 0; c < files_->clients(); ++c) {
    for (int part = 0; part < 2; ++part) {
      const TaggedTexts all = read(part, to_index(c));
      sizes[part].push_back(std::ssize(all.texts));
      for (const std::string& text : all.texts) words_->count(text, all.where);
      for (const std::string& tags : all.tags) {
        if (!is_utf8(tags)) not_utf8(all.where);
        for (const std::string& tag : split_list(tags, '|')) counts[tag] += tag.empty() ? 0 : 1;
      }
    }
  }
  words_->freeze();
  counts.erase("");
  keep_tags(counts);
  layout_.record.vocabulary = words_->learnt();
  layout_.shape = {words_->size() - Vocabulary::kFirstWord};
  if (layout_.shape[0] == 0) {
    throw InvalidArgument("no text has a word", data_.path, "set data.feature-column");
  }
  order_ = lay_out(layout_, sizes[0], sizes[1], test_fraction());
  for (const std::size_t c : order_) {
    layout_.client_names.push_back(files_->name(static_cast<int64_t>(c)));
  }
  if (std::ssize(order_) == layout_.held_out) {
    throw InvalidArgument("no client has a training sample", data_.path,
                          "one client at least needs one");
  }
  if (const auto empty = files_->clients() - std::ssize(order_); empty > 0) {
    layout_.unread.push_back(counted(empty, "client without samples", "clients without samples"));
  }
  lay_validation(layout_, data_.validation_fraction);
}

void TagSource::keep_tags(const std::unordered_map<std::string, int64_t>& counts) {
  const bool known = !data_.tag_names.empty();
  for (const std::string& tag : known ? data_.tag_names : most_frequent(counts, data_.tags)) {
    number_of_.emplace(tag, number_of_.size());
    layout_.class_names.push_back(tag);
  }
  if (number_of_.empty()) {
    throw InvalidArgument("no text has a tag", data_.path, "set data.label-column");
  }
  layout_.label_values = std::ssize(number_of_);
  layout_.multi_label = true;
}

void TagSource::write_part(int part, std::size_t client, int64_t begin,
                           const SampleArrays& out) const {
  const TaggedTexts all = read(part, client);
  float* features = reinterpret_cast<float*>(out.features) + begin * layout_.sample_values();
  float* labels = out.targets + begin * layout_.label_values;
  std::vector<int32_t> tokens;
  for (std::size_t i = 0; i < all.texts.size(); ++i) {
    std::fill_n(features, layout_.sample_values(), 0.0F);
    std::fill_n(labels, layout_.label_values, 0.0F);
    tokens.clear();
    words_->encode(all.texts[i], all.where, tokens);
    for (const int32_t token : tokens) {
      if (token >= Vocabulary::kFirstWord) features[token - Vocabulary::kFirstWord] += 1;
    }
    for (int64_t w = 0; w < layout_.sample_values() && !tokens.empty(); ++w) {
      features[w] /= static_cast<float>(tokens.size());
    }
    for (const std::string& tag : split_list(all.tags[i], '|')) {
      const auto known = number_of_.find(tag);
      if (known != number_of_.end()) labels[known->second] = 1;
    }
    features += layout_.sample_values();
    labels += layout_.label_values;
  }
}

}  // namespace

std::unique_ptr<ClientSource> make_tag_source(std::unique_ptr<TffPair> files, std::string features,
                                              const std::vector<std::string>& names,
                                              const DataOptions& data, uint64_t seed) {
  return std::make_unique<TagSource>(std::move(files), std::move(features), names, data, seed);
}

}  // namespace hanse
