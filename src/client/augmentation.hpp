// What training makes of images: random crops, flips, cutouts and mixtures.
#pragma once

#include <cstdint>
#include <vector>

#include "hanse/base/aligned.hpp"
#include "hanse/base/random.hpp"
#include "hanse/client/gathered_batch.hpp"
#include "hanse/client/local_update.hpp"

namespace hanse {

// Changes the samples of a client's batches, each in its own way, in this order:
//   crop    the image within a border of `crop` zeros, moved by up to that much each way
//   flip    its columns in the opposite order, with that probability
//   cutout  zeros in a square of that side, whose middle is anywhere in the image
//   mixup   x_i <- s x_i + (1 - s) x_{i+1} and the labels of both (Zhang et al. 2018), with one
//           s ~ Beta(mixup, mixup) a batch, whose samples are in random order
// The draws are the client's in a round (stream of seed, kAugmentation, round, client), so that
// they depend neither on ranks nor on other clients. Cost: a copy of each sample, in the cache;
// with mixup a pass over the batch.
class Augmentation {
 public:
  // Throws InvalidArgument: samples that are no images {channels, height, width}, or too small.
  Augmentation(const AugmentationOptions& options, const Federation& federation);

  // Begins one participation.
  void start(const ClientTask& task);
  // Changes the gathered samples; `view` is what a model gets to see of them.
  void apply(GatheredBatch& batch, Batch& view);

 private:
  void place(float* image);
  void cut(float* image);
  void mix(GatheredBatch& batch, Batch& view);

  AugmentationOptions options_;
  int64_t channels_ = 0, height_ = 0, width_ = 0;
  RandomStream stream_{0, Purpose::kAugmentation};
  AlignedFloats image_;          // of one sample, as it was
  std::vector<int32_t> labels_;  // of the samples that are mixed in
  std::vector<float> targets_;
  MixedLabels mixed_;
};

}  // namespace hanse
