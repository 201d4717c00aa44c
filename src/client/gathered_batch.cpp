#include "hanse/client/gathered_batch.hpp"

namespace hanse {

void GatheredBatch::gather(const Federation& federation, int64_t begin,
                           std::span<const int32_t> order) {
  rows = std::ssize(order);
  features.resize(static_cast<std::size_t>(rows * federation.sample_values()));
  federation.gather(begin, order, features.data());
  federation.gather_labels(begin, order, labels);
  federation.gather_targets(begin, order, targets);
}

}  // namespace hanse
