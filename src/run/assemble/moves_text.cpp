#include "moves_text.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "hanse/client/movement.hpp"
#include "hanse/job/job.hpp"
#include "hanse/kinds/updates.hpp"

namespace hanse {

namespace {

std::string join_phases(const Movement& movement, const std::string& unit) {
  std::string text;
  for (const Movement::Phase& phase : movement.phases) {
    text += fmt::format("{}{} ({} values)", text.empty() ? "" : ", then ", phase.part.name,
                        phase.part.size());
    if (movement.by_rounds) continue;
    text += fmt::format(" for {} {}{}", phase.length, unit, phase.length == 1 ? "" : "s");
  }
  return text;
}

// Trained values that no phase moves.
int64_t still_values(const Movement& movement, const ParameterLayout& layout) {
  int64_t still = 0;
  for (const ParameterSlot& slot : layout.slots()) {
    const bool moves = std::ranges::any_of(movement.phases, [&](const Movement::Phase& phase) {
      return phase.part.holds(slot.offset);
    });
    if (slot.trainable && !moves) still += slot.size;
  }
  return still;
}

std::string moved(const Job& job, const Movement& movement) {
  if (!job.client.alternate.empty()) {
    return "rounds move in turn " + join_phases(movement, "") +
           "; the updates of the others are 0, and travel with them";
  }
  if (job.client.phases.list.empty()) return "";
  return "the steps of a round move " +
         join_phases(movement, job.client.steps > 0 ? "step" : "epoch");
}

std::string still(const Job& job, int64_t values) {
  if (values == 0) return "";
  return fmt::format(
      "training leaves {} values of the row as they start; they travel with the others{}", values,
      tunes_beyond_training(job) ? ", because evaluate.tune moves them" : "");
}

std::string evaluated(const Job& job, const LocalUpdate& update) {
  const bool own = evaluates_own_models(job), tunes = job.evaluate.tune_steps > 0;
  if ((!own || job.client.has_clusters()) && !tunes) return "";  // clusters_text() says it
  std::string model = "the shared model";
  if (own && update.keeps_own_model()) {
    model = "each client's own model";
  } else if (own && !tunes) {
    model = "what a round of a client's training makes of the shared model";
  }
  if (!tunes) return "evaluations are of " + model;
  const std::string& moves = job.evaluate.tune;
  return fmt::format(
      "evaluations are of {} behind {} step{} of {} on a client's training samples; before_* are "
      "of "
      "it without",
      model, job.evaluate.tune_steps, job.evaluate.tune_steps == 1 ? "" : "s",
      moves.empty() ? "all that training moves" : moves);
}

}  // namespace

std::vector<std::string> moves_notices(const Job& job, const LocalUpdate& update,
                                       const ParameterLayout& layout) {
  const Movement movement = movement_of(instructed_clients(job), layout);
  const int64_t values = movement.phases.empty() ? 0 : still_values(movement, layout);
  std::vector<std::string> lines{moved(job, movement), still(job, values), evaluated(job, update)};
  std::erase(lines, "");
  return lines;
}

}  // namespace hanse
