#include "hanse/client/evaluator.hpp"

#include <algorithm>

#include "hanse/base/subnormals.hpp"

namespace hanse {

EvaluationSums RowEvaluator::range(SampleRange range, SampleResults results) {
  const FlushSubnormals flush;
  EvaluationSums sums;
  for_each_batch(federation_, range, model_.evaluation_rows(), features_,
                 [&](const Batch& batch, int64_t first) {
                   sums += model_.evaluate(row_, batch, results.from(first));
                 });
  return sums;
}

EvaluationSums RowEvaluator::chosen(int64_t begin, std::span<const int32_t> order) {
  const FlushSubnormals flush;
  EvaluationSums sums;
  const auto longest = static_cast<std::size_t>(model_.evaluation_rows());
  for (std::size_t first = 0; first < order.size(); first += longest) {
    const auto part = order.subspan(first, std::min(longest, order.size() - first));
    gathered_.gather(federation_, begin, part);
    sums += model_.evaluate(row_, gathered_.view());
  }
  return sums;
}

}  // namespace hanse
