#include "hanse/protocol/attackers.hpp"

#include <algorithm>

namespace hanse {

AggregatorNeeds needs_among(const AggregatorNeeds& needs, const Attackers* attackers) {
  return attackers == nullptr ? needs : needs_among(needs, attackers->needs());
}

AggregatorNeeds needs_among(AggregatorNeeds needs, const ForgeNeeds& attack) {
  if (!attack.forges) return needs;
  if (!needs.after_training()) needs.late = true;
  needs.norms = true;
  needs.gram = true;  // lengths and products of the forged rows follow from those of the others
  // h and p, and g, of which rank 0 has told the others.
  needs.forging_rows = std::max<int64_t>(needs.forging_rows, attack.last ? 3 : 2);
  return needs;
}

}  // namespace hanse
