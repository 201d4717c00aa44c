// What BanditProtocol::round() sends, in the order in which it does, and what a rank keeps.
#include "bandit_run.hpp"
#include "hanse/protocol/bandit.hpp"

namespace hanse {

RoundFootprint BanditProtocol::footprint(const BanditFacts& facts, int64_t ranks) {
  FootprintTally tally(ranks);
  const auto others = static_cast<double>(ranks - 1);
  const auto repeats = static_cast<double>(facts.repeats);
  // Clients that do not lie on rank 0, and the most on any rank.
  const auto elsewhere = static_cast<double>(facts.clients - first_client(1, ranks, facts.clients));
  const auto most = static_cast<double>((facts.clients + ranks - 1) / ranks);
  const double row = sizeof(double) * static_cast<double>(facts.row_width);
  const double syncs = repeats * facts.synchronizations;

  // play_round(): the turns up to each synchronization and those behind the last; synchronize().
  const double phases = repeats + syncs;
  tally.add("turns", 2 * phases * sizeof(int64_t) * others, 2 * phases * others, 2 * phases);
  if (syncs > 0) {
    tally.add("statistics", syncs * row * (elsewhere + others), 2 * syncs * others, 2 * syncs);
  }
  // count_round().
  tally.add("arms", repeats * sizeof(int64_t) * (elsewhere + others), 2 * repeats * others,
            2 * repeats);
  tally.reduce("findings", sizeof(double) * kFindings);
  tally.keep("statistics", repeats * row * (1 + most));
  return tally.take();
}

}  // namespace hanse
