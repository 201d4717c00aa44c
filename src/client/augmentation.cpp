#include "augmentation.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hanse/base/error.hpp"

namespace hanse {

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
  stream_ = RandomStream(task.seed, Purpose::kAugmentation, static_cast<uint64_t>(task.round),
                         static_cast<uint64_t>(task.client));
}

void Augmentation::apply(GatheredBatch& batch, Batch& view) {
  if (image_.empty()) return;
  const auto size = std::ssize(image_);
  for (int64_t i = 0; i < batch.rows; ++i) {
    float* image = batch.features.data() + i * size;
    if (options_.crop > 0 || options_.flip > 0) place(image);
    if (options_.cutout > 0) cut(image);
  }
  if (options_.mixup > 0) mix(batch, view);
}

// Pixel (y, x) <- that at (y + down, x + right) of the image, from the other side when it is
// flipped; 0 where that is outside.
void Augmentation::place(float* image) {
  const int64_t crop = options_.crop;
  const int64_t down = crop > 0 ? stream_.below(2 * crop + 1) - crop : 0;
  const int64_t right = crop > 0 ? stream_.below(2 * crop + 1) - crop : 0;
  const bool flips = options_.flip > 0 && stream_.uniform() < options_.flip;
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

void Augmentation::cut(float* image) {
  const int64_t side = options_.cutout;
  const int64_t top = stream_.below(height_) - side / 2, left = stream_.below(width_) - side / 2;
  const int64_t begin = std::max<int64_t>(0, left), end = std::min(width_, left + side);
  for (int64_t c = 0; c < channels_; ++c) {
    for (int64_t y = std::max<int64_t>(0, top); y < std::min(height_, top + side); ++y) {
      float* row = image + (c * height_ + y) * width_;
      std::fill(row + begin, row + end, 0.0F);
    }
  }
}

void Augmentation::mix(GatheredBatch& batch, Batch& view) {
  const double a = stream_.gamma(options_.mixup), b = stream_.gamma(options_.mixup);
  const double share = a + b > 0 ? a / (a + b) : 1;
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

}  // namespace hanse
