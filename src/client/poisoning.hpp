// What byzantine clients do to the samples of their batches.
#pragma once

#include <cstdint>

#include "hanse/client/client_task.hpp"
#include "hanse/client/gathered_batch.hpp"
#include "hanse/client/options.hpp"
#include "hanse/client/patched_image.hpp"
#include "hanse/data/federation.hpp"

namespace hanse {

// Changes the samples of the options' clients in the rounds of the attack:
//   flip      label y becomes C - 1 - y, or label `source` becomes `target`
//   backdoor  the first ceil(share n) of a batch of n have a patch of ones and label `target`
// Cost: a pass over the labels, and over the patches.
class Poisoning {
 public:
  // Throws InvalidArgument: data without one class a sample, a class that they do not have, or
  // samples that are no images that the patch fits into.
  Poisoning(const PoisonOptions& options, const Federation& federation);

  // Begins one participation.
  void start(const ClientTask& task);
  void apply(GatheredBatch& batch) const;

 private:
  PoisonOptions options_;
  int64_t classes_ = 0;
  PatchedImage image_;
  bool is_on_ = false;  // in this participation
};

}  // namespace hanse
