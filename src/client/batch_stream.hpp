// The samples of one participation, in mini-batches; what training makes of images (random crops,
// flips, cutouts and mixtures); and what a sample counts in its client's loss, by its class.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "hanse/base/aligned.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/random.hpp"
#include "hanse/client/gathered_batch.hpp"
#include "hanse/client/local_update.hpp"
#include "hanse/client/options.hpp"
#include "hanse/client/round_steps.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/model/image_change.hpp"
#include "poisoning.hpp"
#include "sample_order.hpp"

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
  // Draws what becomes of the next batch's samples, but for their places. Returns the share of the
  // own ones in a mixture, 1 without.
  double draw(std::span<ImageChange> changes);
  // Draws, and changes the gathered samples; `view` is what a model gets to see of them.
  void apply(GatheredBatch& batch, Batch& view);

 private:
  void draw(ImageChange& change);
  void place(const ImageChange& change, float* image);
  void cut(const ImageChange& change, float* image) const;
  void mix(double share, GatheredBatch& batch, Batch& view);

  AugmentationOptions options_;
  int64_t channels_ = 0, height_ = 0, width_ = 0;
  RandomStream stream_{0, Purpose::kAugmentation};
  std::vector<ImageChange> changes_;  // of a batch
  AlignedFloats image_;               // of one sample, as it was
  std::vector<int32_t> labels_;       // of the samples that are mixed in
  std::vector<float> targets_;
  MixedLabels mixed_;
};

// Balanced weights, n / (k n_c) of a class with n_c of n samples in k classes, whose mean over the
// samples is 1; 0 of a class without samples.
class ClassWeights {
 public:
  // Throws InvalidArgument where options.class_weights is no such word or list, or fits no data.
  ClassWeights(const LossOptions& options, const Federation& federation);

  // [classes] for a client whose samples are begin + order[i], until the next call; null: all 1.
  const float* of(int64_t begin, std::span<const int32_t> order);

 private:
  void balance(std::span<const int64_t> counts);

  const Federation& federation_;
  bool of_client_ = false;
  std::vector<float> weights_;  // [classes]; empty: all 1
};

// The client's stream for dropout in the task's round.
inline RandomStream dropout_stream(const ClientTask& task) {
  return {task.seed, Purpose::kDropout, static_cast<uint64_t>(task.key()),
          static_cast<uint64_t>(task.client)};
}

// Hands out a client's samples in mini-batches, in the order of make_sample_order(); of all
// clients' samples with LocalWork::pooled. Memory: one batch, and four bytes a sample.
class BatchStream {
 public:
  // `federation` must outlive the object. Throws InvalidArgument as Poisoning, Augmentation
  // and ClassWeights do.
  BatchStream(const ClientOptions& options, const Federation& federation)
      : work_(options),
        federation_(federation),
        order_(make_sample_order(options, federation)),
        poisoning_(options.poison, federation),
        augmentation_(options.augmentation, federation),
        weights_(options, federation) {}

  // Calls step(batch, noise) -> mean loss of the batch for every step of the task's round; `noise`
  // is the client's stream for dropout. A batch is valid until the next one.
  template <class Step>
  ClientOutcome run(const ClientTask& task, Step step) {
    start(task);
    sample_losses_.clear();
    RandomStream noise = dropout_stream(task);
    const int64_t n = steps();
    ClientOutcome outcome;
    if (n == 0) return outcome;
    for (int64_t i = 0; i < n; ++i) {
      Batch batch = next();
      if (task.squares) batch.sample_losses = room_for_losses(batch.rows);
      outcome.loss += step(batch, noise);
      outcome.samples += batch.rows;
      for (const double loss : sample_losses_) outcome.squares += loss * loss;
    }
    outcome.loss /= static_cast<double>(n);
    return outcome;
  }

  // run() step by step: start() takes the task's samples and its round's steps, for as many
  // batches. The last batch of a pass may be smaller, unless the options leave it out. A client
  // without samples makes no step.
  void start(const ClientTask& task);
  int64_t steps() const { return steps_; }
  // steps_of_length() of the task's client.
  int64_t unit() const { return unit_; }
  Batch next();
  // The samples of the next batch as they are, without a copy.
  ListedSamples next_samples() { return order_->next(); }
  // Augmentation::draw() for that batch.
  void draw(std::span<ImageChange> changes) { augmentation_.draw(changes); }
  // [classes] Batch::class_weights of the task; empty: all 1.
  std::span<const float> class_weights() const {
    return {class_weights_, class_weights_ == nullptr ? 0 : to_index(federation_.classes())};
  }

 private:
  double* room_for_losses(int64_t rows) {
    sample_losses_.assign(static_cast<std::size_t>(rows), 0.0);
    return sample_losses_.data();
  }

  LocalWork work_;
  const Federation& federation_;
  std::unique_ptr<SampleOrder> order_;
  int64_t steps_ = 1, unit_ = 1;
  GatheredBatch gathered_;
  Poisoning poisoning_;
  Augmentation augmentation_;
  ClassWeights weights_;
  const float* class_weights_ = nullptr;  // [classes] of the client
  std::vector<double> sample_losses_;     // of a batch, where they are wanted
};

}  // namespace hanse
