#include "federated/host_intake.hpp"

#include <cmath>

#include "federated/divergence.hpp"
#include "federated/findings.hpp"
#include "federated/round_plan.hpp"
#include "hanse/base/index.hpp"
#include "hanse/protocol/round_part.hpp"
#include "hanse/protocol/update_stage.hpp"

namespace hanse {

HostIntake::HostIntake(const RunnerParts& parts, const FederatedSettings& settings)
    : parts_(parts),
      settings_(settings),
      sent_(parts.model),
      own_(to_index(parts.update.state_width())),
      staged_(to_index(width_of(parts.stages.state_blocks()))),
      kept_(to_index(width_of(rule_state_blocks(parts.rule, parts.model.layout())))),
      controls_(to_index(parts.update.control_width())),
      sink_(make_host_sink(parts, settings,
                           parts.update.control_width() + parts.stages.second_row_width(), rows_)) {
}

void HostIntake::start(const RoundContext& round, Findings& findings) {
  sink_->start(round.number, round.model);
  sink_->second_row().forget_row();
  note_ = [this, &round, &findings](const TrainedClient& one, const FoldResult& folded,
                                    double seconds) {
    note_training(round, one.client, one.entry, one.outcome, folded, one.seconds + seconds,
                  sink_->limit(), findings);
  };
}

void HostIntake::take(const RoundContext& round, std::size_t entry, const ClientOutcome& outcome,
                      double seconds, double start_s, std::span<float> state) {
  const Assignment& mine = round.plan.entries()[entry];
  TrainedClient one{.entry = entry,
                    .position = mine.position,
                    .client = mine.client,
                    .coefficient = mine.coefficient,
                    .outcome = outcome};
  one.is_update = transform(round, mine.client, state);
  one.seconds = seconds + settings_.clock->now_s() - start_s;
  one.state = state.last(kept_);
  one.in_range = sink_->second_row().fold(mine.importance).in_range;
  check_buffers(round, entry, one.is_update);
  for (RoundPart* part : parts_.acting) {
    part->sees({one.position, one.coefficient, sink_->row(), one.is_update, round.model});
  }
  sink_->take(one, note_);
}

// Checks the buffers where the rule has weighed the update already.
void HostIntake::check_buffers(const RoundContext& round, std::size_t entry, bool is_update) {
  const ParameterLayout& layout = parts_.model.layout();
  if (layout.n_trainable() == layout.n_params() || parts_.rule.after_training()) return;
  const Assignment& mine = round.plan.entries()[entry];
  const bool is_exact = reduction_of(settings_) == Reduction::kExact;
  hanse::check_buffers(round, mine.client, mine.coefficient, layout, sink_->row(), is_update,
                       is_exact ? sink_->limit() : INFINITY);
}

HostSink& HostIntake::start_apart(std::span<const float> model) {
  sink_->set_row(model);
  sink_->second_row().forget_row();
  return *sink_;
}

double HostIntake::squared_step(const RoundContext& round, int64_t client,
                                const ClientOutcome& outcome, std::span<float> state) {
  const bool is_update = transform(round, client, state);
  const std::span<const float> trained = sink_->row();
  double sum = 0;
  for (std::size_t i = 0; i < sent_.trained; ++i) {
    const double origin = is_update ? 0 : static_cast<double>(round.model[i]);
    const double moved = static_cast<double>(trained[i]) - origin;
    sum += moved * moved;
  }
  return checked_squared_step(round, client, outcome, sum);
}

// Lets the stages work on what the training has left in the row. Does it hold the update itself
// then?
bool HostIntake::transform(const RoundContext& round, int64_t client, std::span<float> state) {
  if (parts_.stages.updates.empty()) return parts_.update.sends_direction();
  const std::span<float> update = sink_->row();
  for (std::size_t i = 0; !parts_.update.sends_direction() && i < sent_.size; ++i) {
    update[i] -= round.model[i];
  }
  parts_.stages.apply({.client = client,
                       .round = round_key(round.number, round.repeat),
                       .seed = settings_.seed,
                       .update = update,
                       .state = state.subspan(own_, staged_),
                       .second_row = sink_->second_row().row().subspan(controls_)});
  return true;
}

}  // namespace hanse
