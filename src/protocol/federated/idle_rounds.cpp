#include "federated/idle_rounds.hpp"

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hanse/base/log.hpp"

namespace hanse {

void IdleRounds::add(bool counts, const RoundTurnout& turnout) {
  ++rounds_;
  if (counts) return;
  ++idle_;
  const bool nobody_trained = turnout.draw.clients.empty();
  if (!nobody_trained) ++weightless_;
  if (nobody_trained && turnout.uncounted.empty()) ++nobody_;
  for (const UncountedTask& task : turnout.uncounted) {
    if (task.state == TaskState::kLate) ++late_;
    if (task.state == TaskState::kLost) ++lost_;
    if (task.state == TaskState::kDiscarded) ++discarded_;
  }
  if (rounds_ != kFirst || idle_ != kFirst) return;
  warning(fmt::format("no update has counted in the first {} rounds: {}", kFirst, why()));
}

std::string IdleRounds::why() const {
  std::vector<std::string> causes;
  const auto add = [&](int64_t number, const char* what) {
    if (number > 0) causes.push_back(fmt::format("{} {}", number, what));
  };
  add(nobody_, "rounds in which nobody was there or drawn");
  add(late_, "clients that came late");
  add(lost_, "clients that were lost");
  add(discarded_, "updates that were too old");
  add(weightless_, "rounds in which no update got a weight");
  return fmt::format("{}", fmt::join(causes, ", "));
}

std::string IdleRounds::remark() const {
  if (2 * idle_ <= rounds_) return "";
  return fmt::format("no update has counted in {} of {} rounds: {}", idle_, rounds_, why());
}

void IdleRounds::visit(StateFields& fields) {
  fields.numbers("counts", {&rounds_, &idle_, &nobody_, &weightless_, &late_, &lost_, &discarded_});
}

}  // namespace hanse
