#include "hanse/client/evaluator.hpp"

#include <algorithm>

namespace hanse {

float* RowEvaluator::room_for(int64_t rows) {
  const auto values = static_cast<std::size_t>(rows * federation_.sample_values());
  features_.resize(std::max(features_.size(), values));
  return features_.data();
}

EvaluationSums RowEvaluator::range(SampleRange range, float* scores) {
  EvaluationSums sums;
  const int64_t longest = model_.evaluation_rows();
  const auto labels = federation_.labels();
  const auto targets = federation_.targets();
  for (int64_t begin = range.begin; begin < range.end; begin += longest) {
    const SampleRange part{begin, std::min(begin + longest, range.end)};
    float* features = room_for(part.size());
    federation_.copy(part, features);
    const Batch batch{.features = features,
                      .labels = labels.empty() ? nullptr : labels.data() + part.begin,
                      .targets = targets.empty() ? nullptr : targets.data() + part.begin,
                      .rows = part.size()};
    sums += model_.evaluate(row_, batch,
                            scores == nullptr ? nullptr : scores + (part.begin - range.begin));
  }
  return sums;
}

EvaluationSums RowEvaluator::chosen(int64_t begin, std::span<const int32_t> order) {
  EvaluationSums sums;
  const auto longest = static_cast<std::size_t>(model_.evaluation_rows());
  for (std::size_t first = 0; first < order.size(); first += longest) {
    const auto part = order.subspan(first, std::min(longest, order.size() - first));
    const auto rows = static_cast<int64_t>(part.size());
    float* features = room_for(rows);
    federation_.gather(begin, part, features);
    federation_.gather_labels(begin, part, labels_);
    federation_.gather_targets(begin, part, targets_);
    sums += model_.evaluate(row_, {.features = features,
                                   .labels = labels_.empty() ? nullptr : labels_.data(),
                                   .targets = targets_.empty() ? nullptr : targets_.data(),
                                   .rows = rows});
  }
  return sums;
}

}  // namespace hanse
