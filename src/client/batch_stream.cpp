#include "batch_stream.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"

namespace hanse {

namespace {

constexpr const char* kKey = "client.class-weights";

std::vector<float> listed_weights(const std::string& text, int64_t classes) {
  std::vector<float> weights;
  try {
    for (const std::string& item : split_list(text)) {
      weights.push_back(static_cast<float>(parse_number(item)));
    }
  } catch (const InvalidArgument&) {
    throw InvalidArgument(fmt::format("'{}' is no word that is known and no list of numbers", text),
                          kKey, "known: none, client, all, or a weight for each class");
  }
  if (std::any_of(weights.begin(), weights.end(), [](float w) { return !(w >= 0); })) {
    throw InvalidArgument("a class cannot weigh less than 0", kKey);
  }
  if (std::ssize(weights) == classes) return weights;
  throw InvalidArgument(fmt::format("{} weights for {} classes", weights.size(), classes), kKey,
                        "give a weight for each class, in the order of the labels");
}

// Counts the labels of samples; of sequences, those of all positions that have one.
void count_labels(const Federation& federation, SampleRange range, std::span<int64_t> counts) {
  for (const int32_t label : labels_of(federation, range)) {
    if (label >= 0) ++counts[static_cast<std::size_t>(label)];
  }
}

}  // namespace

Augmentation::Augmentation(const AugmentationOptions& options, const Federation& federation)
    : options_(options) {
  const std::string key = augmentation_key(options);
  if (key.empty()) return;
  const auto& shape = federation.sample_shape();
  if (shape.size() != 3) {
    throw InvalidArgument(
        fmt::format("samples of shape {{{}}} are no images", fmt::join(shape, ", ")), key,
        "images have {channels, height, width}");
  }
  channels_ = shape[0];
  height_ = shape[1];
  width_ = shape[2];
  const int64_t side = std::min(height_, width_);
  if (options.crop >= side) {
    throw InvalidArgument(fmt::format("a border of {} leaves nothing of images of {} x {}",
                                      options.crop, height_, width_),
                          "client.crop", "use a smaller one");
  }
  if (options.cutout > side) {
    throw InvalidArgument(fmt::format("a square of {} is larger than images of {} x {}",
                                      options.cutout, height_, width_),
                          "client.cutout", "use a smaller one");
  }
  image_.resize(static_cast<std::size_t>(channels_ * height_ * width_));
}

void Augmentation::start(const ClientTask& task) {
  stream_ = RandomStream(task.seed, Purpose::kAugmentation, static_cast<uint64_t>(task.key()),
                         static_cast<uint64_t>(task.client));
}

double Augmentation::draw(std::span<ImageChange> changes) {
  for (ImageChange& change : changes) draw(change);
  if (options_.mixup == 0) return 1;
  const double a = stream_.gamma(options_.mixup), b = stream_.gamma(options_.mixup);
  const double share = a + b > 0 ? a / (a + b) : 1;
  for (ImageChange& change : changes) change.share = static_cast<float>(share);
  return share;
}

void Augmentation::draw(ImageChange& change) {
  const auto below = [&](int64_t n) { return static_cast<int32_t>(stream_.below(n)); };
  if (const auto crop = static_cast<int32_t>(options_.crop); crop > 0) {
    change.down = below(2 * crop + 1) - crop;
    change.right = below(2 * crop + 1) - crop;
  }
  if (options_.flip > 0) change.flips = stream_.uniform() < options_.flip ? 1 : 0;
  if (const auto side = static_cast<int32_t>(options_.cutout); side > 0) {
    change.top = below(height_) - side / 2;
    change.left = below(width_) - side / 2;
  }
}

void Augmentation::apply(GatheredBatch& batch, Batch& view) {
  if (image_.empty()) return;
  view.places = {};
  changes_.resize(to_index(batch.rows));
  const double share = draw(changes_);
  float* image = batch.features.data();
  for (const ImageChange& change : changes_) {
    place(change, image);
    cut(change, image);
    image += image_.size();
  }
  if (options_.mixup > 0) mix(share, batch, view);
}

// Row after row what source_of() says.
void Augmentation::place(const ImageChange& change, float* image) {
  const int64_t down = change.down, right = change.right;
  const bool flips = change.flips != 0;
  if (down == 0 && right == 0 && !flips) return;
  std::copy_n(image, image_.size(), image_.begin());
  const int64_t first = std::max<int64_t>(0, -right), last = std::min(width_, width_ - right);
  for (int64_t row = 0; row < channels_ * height_; ++row) {
    const int64_t y = row % height_ + down;
    float* to = image + row * width_;
    std::fill_n(to, width_, 0.0F);
    if (y < 0 || y >= height_) continue;
    const float* from = image_.data() + (row + down) * width_ + right;
    if (flips) {
      for (int64_t x = first; x < last; ++x) to[width_ - 1 - x] = from[x];
    } else {
      std::copy(from + first, from + last, to + first);
    }
  }
}

void Augmentation::cut(const ImageChange& change, float* image) const {
  const int64_t side = options_.cutout, top = change.top, left = change.left;
  const int64_t begin = std::max<int64_t>(0, left), end = std::min(width_, left + side);
  for (int64_t c = 0; c < channels_; ++c) {
    for (int64_t y = std::max<int64_t>(0, top); y < std::min(height_, top + side); ++y) {
      float* row = image + (c * height_ + y) * width_;
      std::fill(row + begin, row + end, 0.0F);
    }
  }
}

void Augmentation::mix(double share, GatheredBatch& batch, Batch& view) {
  const auto size = static_cast<std::size_t>(image_.size());
  const auto own = static_cast<float>(share), other = 1 - own;
  std::copy_n(batch.features.begin(), size, image_.begin());
  for (int64_t i = 0; i < batch.rows; ++i) {
    float* image = batch.features.data() + i * std::ssize(image_);
    const float* next = i + 1 < batch.rows ? image + size : image_.data();
    for (std::size_t k = 0; k < size; ++k) image[k] = own * image[k] + other * next[k];
  }
  labels_ = batch.labels;
  targets_ = batch.targets;
  const auto rotate = [&](auto& values) {  // by the label of one sample
    std::rotate(values.begin(), values.begin() + std::ssize(values) / batch.rows, values.end());
  };
  rotate(labels_);
  rotate(targets_);
  mixed_ = {.labels = labels_.empty() ? nullptr : labels_.data(),
            .targets = targets_.empty() ? nullptr : targets_.data(),
            .share = share};
  view.mixed = &mixed_;
}

ClassWeights::ClassWeights(const LossOptions& options, const Federation& federation)
    : federation_(federation), of_client_(options.class_weights == "client") {
  if (options.class_weights == "none") return;
  const int64_t classes = federation.classes();
  if (classes == 0) {
    throw InvalidArgument("targets and several labels a sample have no class to weigh it by", kKey,
                          "leave it at none");
  }
  if (of_client_) return;
  if (options.class_weights != "all") {
    weights_ = listed_weights(options.class_weights, classes);
    return;
  }
  std::vector<int64_t> counts(static_cast<std::size_t>(classes));
  for (int64_t client = 0; client < federation.clients(); ++client) {
    count_labels(federation, federation.train(client), counts);
  }
  balance(counts);
}

const float* ClassWeights::of(int64_t begin, std::span<const int32_t> order) {
  if (of_client_) {
    std::vector<int64_t> counts(static_cast<std::size_t>(federation_.classes()));
    for (const int32_t offset : order) {
      count_labels(federation_, {begin + offset, begin + offset + 1}, counts);
    }
    balance(counts);
  }
  return weights_.empty() ? nullptr : weights_.data();
}

void ClassWeights::balance(std::span<const int64_t> counts) {
  const auto samples =
      static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  const auto absent = std::count(counts.begin(), counts.end(), 0);
  const auto present = static_cast<double>(std::ssize(counts) - absent);
  weights_.assign(counts.size(), 0.0F);
  for (std::size_t c = 0; c < counts.size(); ++c) {
    if (counts[c] == 0) continue;
    weights_[c] = static_cast<float>(samples / (present * static_cast<double>(counts[c])));
  }
}

void BatchStream::start(const ClientTask& task) {
  order_->start(task);
  const auto [begin, all] = order_->all();
  class_weights_ = weights_.of(begin, all);
  const int64_t samples = std::ssize(all);
  steps_ = samples > 0 ? steps_of_task(work_, task, samples) : 0;
  unit_ = steps_of_length(work_, samples);
  poisoning_.start(task);
  augmentation_.start(task);
}

Batch BatchStream::next() {
  const auto [begin, chosen] = order_->next();
  gathered_.gather(federation_, begin, chosen, order_->upcoming());
  poisoning_.apply(gathered_);
  Batch batch = gathered_.view();
  augmentation_.apply(gathered_, batch);
  batch.class_weights = class_weights_;
  return batch;
}

}  // namespace hanse
