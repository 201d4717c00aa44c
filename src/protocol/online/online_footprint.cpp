// What OnlineTrainer::round() sends, in the order in which it does, and what a rank keeps.
#include "hanse/protocol/online.hpp"
#include "online/online_scores.hpp"
#include "online/peers.hpp"

namespace hanse {

RoundFootprint OnlineTrainer::footprint(int64_t ranks) const {
  RoundFootprint footprint(ranks);
  const auto nodes = static_cast<double>(nodes_);
  const auto p = static_cast<double>(parts_.model.n_params());
  const auto elsewhere =
      static_cast<double>(nodes_ - first_node(1, ranks, nodes_));  // not on rank 0
  const Exchange exchange = parts_.rule.exchange();
  if (exchange == Exchange::kAll || exchange == Exchange::kMean) {
    footprint.add("waiting", 0, 0);
    footprint.allgather("estimates", sizeof(float) * nodes * p);
  }
  const double numbers = nodes * (nodes + static_cast<double>(kNumbers));  // numbers_
  if (compares_models(exchange)) footprint.allgather("losses", sizeof(double) * numbers);
  for (const RowPart part : descends() ? peer_steps(parts_.model) : std::vector<RowPart>()) {
    const auto values = nodes * static_cast<double>(part.size());
    footprint.reduce("gradients", sizeof(int64_t) * values);
    footprint.broadcast("gradients", sizeof(float) * values);
    footprint.keep("gradients", (sizeof(int64_t) + sizeof(float)) * values);
  }
  footprint.gather("reports", sizeof(NodeReport) * elsewhere);
  footprint.gather("reports", sizeof(RankReport) * footprint.others());

  footprint.keep("model rows", 2 * sizeof(float) * nodes * p);
  footprint.keep("losses and weights", sizeof(double) * (numbers + nodes * nodes));
  const auto columns =
      static_cast<double>(parts_.fit.remembers() ? parts_.federation.sample_values() + 1 : 0);
  const auto most = static_cast<double>((nodes_ + ranks - 1) / ranks);
  footprint.keep("ridge regressions", sizeof(double) * columns * columns * most);
  return footprint;
}

}  // namespace hanse
