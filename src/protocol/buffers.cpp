// What a round does with a model's buffers, which lie behind the parameters in every row.
#include <algorithm>

#include "hanse/protocol/federated.hpp"

namespace hanse {

int64_t FederatedTrainer::n_trainable() const { return parts_.model.layout().n_trainable(); }

std::span<float> FederatedTrainer::parameters_of(std::span<float> row) const {
  return row.first(static_cast<std::size_t>(n_trainable()));
}

// Buffers are in the sum, but not in the norm that rules learn from.
FoldResult FederatedTrainer::fold_update(const Assignment& mine) {
  const int64_t begin = n_trainable();
  const auto parameters = static_cast<std::size_t>(begin);
  if (parts_.update.tells_update()) {  // of models without buffers
    const FoldResult folded = sum_.fold(row_, {}, mine.coefficient);
    std::copy(theta_.begin(), theta_.end(), row_.begin());
    return folded;
  }
  const std::span<const float> origin = theta_;
  const FoldResult buffers = sum_.fold(std::span(row_).subspan(parameters),
                                       origin.subspan(parameters), mine.coefficient, begin);
  FoldResult folded = sum_.fold(parameters_of(row_), origin.first(parameters), mine.coefficient);
  folded.in_range = folded.in_range && buffers.in_range;
  return folded;
}

// Rank 0: buffers go to the participants' mean, by the coefficients of their updates and without
// the optimizer: a variance between theirs stays a variance.
void FederatedTrainer::average_buffers(std::span<float> buffers, std::span<const float> update,
                                       double coefficients) {
  if (coefficients <= 0) return;
  const auto scale = static_cast<float>(1 / coefficients);
  for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i] += scale * update[i];
}

}  // namespace hanse
