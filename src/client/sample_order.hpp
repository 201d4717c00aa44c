// Which samples of a client its mini-batches have, one after another.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "hanse/base/random.hpp"
#include "hanse/client/local_update.hpp"
#include "hanse/client/options.hpp"
#include "hanse/data/federation.hpp"

namespace hanse {

class SampleOrder {
 public:
  virtual ~SampleOrder() = default;
  // Takes the samples of the task's participation; the next batch is the first.
  virtual void start(const ClientTask& task) = 0;
  // All of them, in some order.
  virtual ListedSamples all() const = 0;
  // Those of the next batch; they live until the next call.
  virtual ListedSamples next() = 0;
  // Those that come after it, as far as they are known; for speed alone.
  virtual ListedSamples upcoming() { return {}; }
};

// In a fresh order every pass (stream of seed, kShuffle, round, client), batch behind batch, as
// LocalWork says; with options.private_steps each sample in each batch with probability batch / n,
// by its secret. `federation` must outlive the object. Memory: four bytes a sample.
std::unique_ptr<SampleOrder> make_sample_order(const ClientOptions& options,
                                               const Federation& federation);

}  // namespace hanse
