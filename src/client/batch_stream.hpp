// The samples of one participation, in mini-batches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "augmentation.hpp"
#include "class_weights.hpp"
#include "hanse/base/random.hpp"
#include "hanse/client/gathered_batch.hpp"
#include "hanse/client/local_update.hpp"

namespace hanse {

// The client's stream for dropout in the task's round.
inline RandomStream dropout_stream(const ClientTask& task) {
  return {task.seed, Purpose::kDropout, static_cast<uint64_t>(task.round),
          static_cast<uint64_t>(task.client)};
}

// Hands out a client's samples in mini-batches, in a fresh order every pass (stream of seed,
// kShuffle, round, client); of all clients' samples with options.pooled. Memory: one batch, and
// four bytes a sample.
class BatchStream {
 public:
  // `federation` must outlive the object. Throws InvalidArgument as Augmentation and ClassWeights
  // do.
  BatchStream(const ClientOptions& options, const Federation& federation)
      : options_(options),
        federation_(federation),
        augmentation_(options.augmentation, federation),
        weights_(options, federation) {}

  // Calls step(batch, noise) -> mean loss of the batch for every step of the task's round; `noise`
  // is the client's stream for dropout. A batch is valid until the next one.
  template <class Step>
  ClientOutcome run(const ClientTask& task, Step step) {
    start(task);
    RandomStream noise = dropout_stream(task);
    const int64_t n = steps();
    ClientOutcome outcome;
    for (int64_t i = 0; i < n; ++i) {
      const Batch batch = next();
      outcome.loss += step(batch, noise);
      outcome.samples += batch.rows;
    }
    outcome.loss /= static_cast<double>(n);
    return outcome;
  }

  // The same step by step: the task's samples, the steps of its round, and as many batches. The
  // last batch of a pass may be smaller, unless the options leave it out.
  void start(const ClientTask& task);
  int64_t steps() const { return steps_; }
  Batch next();
  // The same without a copy, as they are: samples begin + order[i] of the federation.
  struct Samples {
    int64_t begin;
    std::span<const int32_t> order;
  };
  Samples next_samples();

 private:
  void list_samples(int64_t client);
  int64_t samples() const { return static_cast<int64_t>(order_.size()); }
  // The rows of order_ that come next in this pass.
  std::span<const int32_t> upcoming() const;

  ClientOptions options_;
  const Federation& federation_;
  int64_t begin_ = 0;  // of the first client's samples
  int64_t batch_ = 1;
  int64_t steps_ = 1;
  int64_t next_ = 0;  // first sample of order_ not handed out in this pass
  int64_t end_ = 0;   // of a pass in order_
  RandomStream shuffle_{0, Purpose::kShuffle};
  std::vector<int32_t> order_;  // [samples()] from begin_
  GatheredBatch gathered_;
  Augmentation augmentation_;
  ClassWeights weights_;
  const float* class_weights_ = nullptr;  // [classes] of the client
};

}  // namespace hanse
