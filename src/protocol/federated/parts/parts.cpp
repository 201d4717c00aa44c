#include "federated/parts/parts.hpp"

#include "federated/parts/last_step.hpp"

namespace hanse {

std::vector<std::unique_ptr<RoundPart>> make_parts(PartsOf of) {
  const AggregatorNeeds& needs = of.needs;
  std::vector<std::unique_ptr<RoundPart>> parts;
  const auto add = [&](bool acts, auto make) {
    if (acts) parts.push_back(make(of));
  };
  if (of.server) {
    add(of.parts.update.counts_steps(), make_fednova);
    add(of.parts.turnout != nullptr, make_staleness);
    add(of.settings.async.is_fedasync(), make_fedasync);
    add(of.settings.participation, make_participation_lines);
    add(of.trace != nullptr, make_trace);
    add(needs.rejects || of.parts.attackers != nullptr, make_robust_measures);
    if (needs.extra_row == ExtraRow::kLastStep || needs.forging_rows > 2) {
      auto last = std::make_unique<LastStep>(of.parts.model.layout().n_params());
      of.last_step = last->values();
      parts.push_back(std::move(last));
    }
  }
  add(needs.extra_row != ExtraRow::kNone, make_own_row);
  add(needs.forging_rows > 0, make_forging);
  return parts;
}

}  // namespace hanse
