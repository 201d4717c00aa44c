#include "hanse/evaluation/common_test.hpp"

#include <algorithm>

#include "hanse/base/index.hpp"

namespace hanse {

Metrics evaluate_common_test(const Federation& federation, Evaluator& model, Communicator& comm,
                             const std::string& prefix, const AskedMetrics& asked) {
  constexpr int64_t kPieceSamples = 1024;
  const SampleRange all = federation.common_test();
  if (all.size() == 0) return {};
  std::vector<int64_t> places;
  std::vector<EvaluationSums> found;
  std::vector<ScoreSums> scores;
  RankCounts counts({}, {}, federation.classes());
  for (int64_t begin = all.begin; begin < all.end; begin += kPieceSamples) {
    const int64_t piece = (begin - all.begin) / kPieceSamples;
    if (piece % comm.size() != comm.rank()) continue;
    places.push_back(piece);
    const SampleRange part{begin, std::min(begin + kPieceSamples, all.end)};
    ScoredSamples scored(asked.scores, federation.label_form(), part.size(), asked.any());
    found.push_back(model.range(part, scored.results()));
    scores.push_back(sum_scores(asked.scores, federation, part, scored, found.back().loss));
    if (!asked.any()) continue;
    counts += RankCounts(labels_of(federation, part), scored.ranks, federation.classes());
  }
  for (const std::span<int64_t> sums :
       {std::span<int64_t>(counts.samples), std::span<int64_t>(counts.correct),
        std::span<int64_t>(&counts.top5, 1)}) {
    if (asked.any()) comm.reduce(sums, ReduceOp::kSum, 0);
  }
  places = comm.gatherv(std::span<const int64_t>(places), 0);
  found = comm.gatherv(std::span<const EvaluationSums>(found), 0);
  scores = comm.gatherv(std::span<const ScoreSums>(scores), 0);
  if (comm.rank() != 0) return {};
  std::vector<std::size_t> order(found.size());
  for (std::size_t i = 0; i < found.size(); ++i) order[to_index(places[i])] = i;
  EvaluationSums sums;
  ScoreSums all_scores;
  for (const std::size_t i : order) {
    sums += found[i];
    for (std::size_t s = 0; s < kMostScores; ++s) all_scores[s] += scores[i][s];
  }
  const auto samples = static_cast<double>(sums.samples);
  std::vector<double> values{sums.loss / samples};
  if (federation.classes() > 0) values.push_back(sums.correct / samples);
  for (const auto& [name, value] : named_scores(asked, asked_scores(asked, counts, all_scores))) {
    values.push_back(value);
  }
  Metrics metrics;
  for (const std::string& name : common_test_names(federation, asked)) {
    metrics.emplace_back(prefix + name, values[metrics.size()]);
  }
  return metrics;
}

std::vector<std::string> common_test_names(const Federation& federation,
                                           const AskedMetrics& asked) {
  if (federation.common_test().size() == 0) return {};
  std::vector<std::string> names{"common_loss"};
  if (federation.classes() > 0) names.push_back("common_accuracy");
  for (const auto& [name, value] : named_scores(asked, {})) names.push_back("common_" + name);
  return names;
}

}  // namespace hanse
