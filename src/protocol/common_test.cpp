#include "hanse/protocol/common_test.hpp"

#include <algorithm>

#include "hanse/base/index.hpp"

namespace hanse {

Metrics evaluate_common_test(const Federation& federation, Evaluator& model, Communicator& comm,
                             const std::string& prefix) {
  constexpr int64_t kPieceSamples = 1024;
  const SampleRange all = federation.common_test();
  if (all.size() == 0) return {};
  std::vector<int64_t> places;
  std::vector<EvaluationSums> found;
  for (int64_t begin = all.begin; begin < all.end; begin += kPieceSamples) {
    const int64_t piece = (begin - all.begin) / kPieceSamples;
    if (piece % comm.size() != comm.rank()) continue;
    places.push_back(piece);
    found.push_back(model.range({begin, std::min(begin + kPieceSamples, all.end)}));
  }
  places = comm.gatherv(std::span<const int64_t>(places), 0);
  found = comm.gatherv(std::span<const EvaluationSums>(found), 0);
  if (comm.rank() != 0) return {};
  std::vector<EvaluationSums> pieces(found.size());
  for (std::size_t i = 0; i < found.size(); ++i) pieces[to_index(places[i])] = found[i];
  EvaluationSums sums;
  for (const EvaluationSums& piece : pieces) sums += piece;
  const auto samples = static_cast<double>(sums.samples);
  Metrics metrics{{prefix + "common_loss", sums.loss / samples}};
  if (federation.classes() > 0) {
    metrics.emplace_back(prefix + "common_accuracy", sums.correct / samples);
  }
  return metrics;
}

}  // namespace hanse
