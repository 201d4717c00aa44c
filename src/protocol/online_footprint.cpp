// What OnlineTrainer::round() sends, in the order in which it does, and what a rank keeps.
#include "hanse/protocol/online.hpp"
#include "online_scores.hpp"

namespace hanse {

RoundFootprint OnlineTrainer::footprint(const OnlineFacts& facts, int64_t ranks) {
  FootprintTally tally(ranks);
  const auto nodes = static_cast<double>(facts.nodes);
  const auto p = static_cast<double>(facts.n_params);
  const auto others = static_cast<double>(ranks - 1);
  // Nodes that do not lie on rank 0.
  const auto elsewhere = static_cast<double>(facts.nodes - first_node(1, ranks, facts.nodes));
  if (facts.exchange != Exchange::kNone) {
    tally.add("waiting", 0, 0);
    tally.allgather("estimates", sizeof(float) * nodes * p);
  }
  const double numbers = nodes * (nodes + static_cast<double>(kNumbers));  // numbers_
  if (facts.exchange == Exchange::kAll) tally.allgather("losses", sizeof(double) * numbers);
  tally.gather("reports", sizeof(NodeReport) * elsewhere);
  tally.gather("reports", sizeof(RankReport) * others);

  tally.keep("model rows", 2 * sizeof(float) * nodes * p);
  tally.keep("losses and weights", sizeof(double) * (numbers + nodes * nodes));
  const auto columns = static_cast<double>(facts.ridge_columns);
  const auto most = static_cast<double>((facts.nodes + ranks - 1) / ranks);
  tally.keep("ridge regressions", sizeof(double) * columns * columns * most);
  return tally.take();
}

}  // namespace hanse
