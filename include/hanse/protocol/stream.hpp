// Each client's samples as a stream: batches that arrive over time, each sample once a pass.
#pragma once

#include <cstdint>
#include <vector>

#include "hanse/client/gathered_batch.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/model/model.hpp"
#include "hanse/protocol/stream_options.hpp"

namespace hanse {

using StreamBatch = GatheredBatch;

// Batch t of T holds the samples [floor(n (t-1) / T), floor(n t / T)) of a client's n, in an order
// that depends on the seed, the client and the pass alone. Batches T + 1 ... 2 T are the second
// pass, and so on.
class Stream {
 public:
  // Samples of the largest training batch.
  static int64_t largest_batch(const Federation& federation, int64_t horizon);

  // Throws InvalidArgument when a client has fewer training samples than batches. `federation` must
  // outlive the object. Memory: 4 bytes a sample.
  Stream(const Federation& federation, const StreamOptions& options, uint64_t seed);

  int64_t horizon() const { return options_.horizon; }
  // The client whose samples reach the node in round t (1 ... horizon * passes).
  int64_t source(int64_t node, int64_t t) const;

  // The node's batch of round t: at least one of its training samples, perhaps none of its test
  // samples. Without own test samples the test batch is the training batch. A round in another pass
  // than the last call's orders all samples anew: O(samples).
  void train(int64_t node, int64_t t, StreamBatch& batch);
  void test(int64_t node, int64_t t, StreamBatch& batch);
  bool tests_on_training(int64_t node, int64_t t) const;

 private:
  void order_pass(int64_t pass);
  void order_samples(SampleRange range, int64_t client);
  void take(SampleRange range, int64_t t, StreamBatch& batch);

  const Federation& federation_;
  StreamOptions options_;
  uint64_t seed_;
  int64_t pass_ = 0;            // the pass that `order_` belongs to
  std::vector<int32_t> order_;  // [samples] places within the range that holds them
};

}  // namespace hanse
