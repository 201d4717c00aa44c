#include "hanse/protocol/attackers.hpp"

namespace hanse {

AggregatorNeeds needs_among(AggregatorNeeds needs, const Attackers* attackers) {
  if (attackers == nullptr) return needs;
  const ForgeNeeds forging = attackers->needs();
  if (!forging.forges) return needs;
  if (!needs.after_training()) needs.late = true;
  needs.norms = true;
  needs.gram = needs.gram || forging.gram;
  return needs;
}

}  // namespace hanse
