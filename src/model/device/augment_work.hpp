// The images that a step trains on, made of those that stand on the device.
#pragma once

#include <cstdint>

#include "divider.hpp"
#include "hanse/base/both_sides.hpp"
#include "hanse/model/image_change.hpp"

namespace hanse {

// A block is a sample of a step's batches [C, B], block_work.hpp; it does nothing for one that its
// client does not have. The images have the bits of the host's: each is made of samples as they
// are, so that no block waits for another.
struct AugmentWork {
  static constexpr int kThreads = 256;
  struct Scratch {};

  ImageSize size;
  Divider height, width;  // of it
  int32_t values;         // of an image, channel after channel
  int64_t batch;
  int64_t first;                   // the place of the first one that is made; the others follow
  const int64_t* counts;           // [C] samples
  const ImageChange* changes;      // [C, B]
  float* features;                 // [places, values]
  int64_t label_values;            // of a sample
  int32_t *labels, *other_labels;  // [places, label_values] own ones, and those mixed in, or ...
  float *targets, *other_targets;  // ... targets; the other two are null
  float* shares;  // [places] of the own labels; null, as others' labels are: nothing is mixed

  HANSE_BOTH_SIDES int phases() const { return 1; }

  HANSE_BOTH_SIDES void operator()(int /*phase*/, int64_t block, int thread, Scratch&) const {
    const int64_t client = block / batch, b = block - client * batch, count = counts[client];
    if (b >= count) return;
    const ImageChange own = changes[block];
    const ImageChange next = changes[b + 1 < count ? block + 1 : client * batch];
    const float *image = features + own.place * values, *other = features + next.place * values;
    float* to = features + (first + block) * values;
    const float rest = 1 - own.share;
    for (int32_t i = thread; i < values; i += kThreads) {
      const float value = pixel(own, image, i);
      to[i] = shares != nullptr ? own.share * value + rest * pixel(next, other, i) : value;
    }
    copy(labels, own.place, labels, block, thread);
    copy(targets, own.place, targets, block, thread);
    copy(labels, next.place, other_labels, block, thread);
    copy(targets, next.place, other_targets, block, thread);
    if (shares != nullptr && thread == 0) shares[first + block] = own.share;
  }

 private:
  HANSE_BOTH_SIDES float pixel(const ImageChange& change, const float* image, int32_t i) const {
    const auto [row, x] = width.split(i);
    const auto [channel, y] = height.split(row);
    const int32_t from = source_of(change, size, y, x);
    return from < 0 ? 0 : image[channel * size.height * size.width + from];
  }

  template <class Value>
  HANSE_BOTH_SIDES void copy(const Value* from, int64_t place, Value* to, int64_t block,
                             int thread) const {
    if (to == nullptr) return;
    for (int64_t i = thread; i < label_values; i += kThreads) {
      to[(first + block) * label_values + i] = from[place * label_values + i];
    }
  }
};

}  // namespace hanse
