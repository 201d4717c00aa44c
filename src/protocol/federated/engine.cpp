#include "federated/engine.hpp"

namespace hanse {

void DeleteEngine::operator()(Engine* engine) const { delete engine; }

bool step_overlaps(const AggregatorNeeds& needs, const LocalUpdate& update) {
  return needs.trials == 0 && !update.sends_direction();
}

}  // namespace hanse
