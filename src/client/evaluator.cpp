#include "hanse/client/evaluator.hpp"

#include <algorithm>

#include "hanse/base/subnormals.hpp"

namespace hanse {

EvaluationSums RowEvaluator::range(SampleRange range, SampleResults results) {
  const FlushSubnormals flush;
  EvaluationSums sums;
  const int64_t longest = model_.evaluation_rows();
  for (int64_t begin = range.begin; begin < range.end; begin += longest) {
    const SampleRange part{begin, std::min(begin + longest, range.end)};
    const auto values = static_cast<std::size_t>(part.size() * federation_.sample_values());
    features_.resize(std::max(features_.size(), values));
    federation_.copy(part, features_.data());
    sums += model_.evaluate(row_, batch_of(federation_, part, features_.data()),
                            results.from(part.begin - range.begin));
  }
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
