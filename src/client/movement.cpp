#include "hanse/client/movement.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"

namespace hanse {

namespace {

constexpr const char* kPhases = "client.phases";
constexpr const char* kAlternate = "client.alternate";
constexpr const char* kTune = "evaluate.tune";

using Slots = std::vector<ParameterSlot>;

Slots both(Slots slots, const Slots& others, bool hold = true) {
  std::erase_if(slots, [&](const ParameterSlot& slot) { return hold != holds(others, slot); });
  return slots;
}

// What a client's steps may move at all, and what it keeps.
class Tensors {
 public:
  Tensors(const PartOptions& options, const ParameterLayout& layout)
      : trained_(trainable_slots(layout)), moving_(trained_) {
    const auto moves = split_list(options.moves), personal = split_list(options.personal);
    if (!moves.empty()) moving_ = matching(trained_, moves, kTune);
    if (!personal.empty()) personal_ = matching(layout.slots(), personal, "client.personal");
    if (!options.has_clusters()) return;
    clustered_ = matching(trained_, split_list(options.clustered), "client.clustered");
  }

  bool all_move() const { return moving_.size() == trained_.size(); }
  MovingPart moving() const { return part_of("", moving_); }

  // The part of a phase's name. Throws InvalidArgument, which names `key`.
  MovingPart named(const std::string& name, const std::string& key) const {
    MovingPart part = part_of(name, slots_of(name, key));
    if (!part.parts.empty()) return part;
    const char* hint = name == "personal"    ? "name tensors of the clients' own: client.personal"
                       : name == "clustered" ? "name tensors of the clusters': client.clustered"
                                             : "leave it out";
    throw InvalidArgument(fmt::format("a phase of '{}' moves nothing", name), key, hint);
  }

 private:
  Slots slots_of(const std::string& name, const std::string& key) const {
    if (name == "all") return moving_;
    if (name == "personal") return both(moving_, personal_);
    if (name == "clustered") return both(moving_, clustered_);
    if (name == "shared") {
      return both(both(moving_, personal_, /*hold=*/false), clustered_, /*hold=*/false);
    }
    return both(moving_, matching(trained_, {name}, key));
  }

  MovingPart part_of(const std::string& name, const Slots& slots) const {
    return {.name = name, .parts = joined_parts(slots), .all = slots.size() == trained_.size()};
  }

  Slots trained_, moving_, personal_, clustered_;
};

bool meet(const MovingPart& one, const MovingPart& other) {
  return std::ranges::any_of(one.parts, [&](const RowPart& a) {
    return std::ranges::any_of(other.parts,
                               [&](const RowPart& b) { return common_size(a, b) > 0; });
  });
}

}  // namespace

int64_t MovingPart::size() const { return total_size(parts); }

bool MovingPart::holds(int64_t place) const {
  return std::ranges::any_of(
      parts, [&](const RowPart& part) { return part.begin <= place && place < part.end; });
}

std::vector<RowPart> Movement::moved_in(int64_t round, const ParameterLayout& layout) const {
  if (!by_rounds) return {{0, layout.n_params()}};
  std::vector<RowPart> moved = phases[PhaseWalk(*this, round).number()].part.parts;
  moved.push_back({layout.n_trainable(), layout.n_params()});
  return moved;
}

Movement movement_of(const ClientOptions& options, const ParameterLayout& layout) {
  const Tensors tensors(options, layout);
  Movement movement;
  for (const LocalPhases::Phase& phase : options.phases.list) {
    movement.phases.push_back({tensors.named(phase.part, kPhases), phase.length});
  }
  for (const std::string& pattern : split_list(options.alternate)) {
    movement.phases.push_back({tensors.named(pattern, kAlternate)});
    movement.by_rounds = true;
  }
  if (movement.phases.empty() && !tensors.all_move()) {
    movement = {.phases = {{tensors.moving()}}, .by_rounds = true};
  }
  return movement;
}

PhaseWalk::PhaseWalk(const Movement& movement, int64_t round) : movement_(&movement), at_(0) {
  const auto phases = static_cast<int64_t>(movement.phases.size());
  if (movement.by_rounds)
    at_ = static_cast<std::size_t>((std::max<int64_t>(round, 1) - 1) % phases);
}

bool PhaseWalk::next(int64_t unit) {
  const auto& phases = movement_->phases;
  if (phases.empty()) return false;
  const bool last = movement_->by_rounds || at_ + 1 == phases.size();
  if (last || made_ / unit < phases[at_].length) return made_++ == 0;
  const int64_t age = age_ + made_;
  before_.push_back(made_);
  ++at_;
  made_ = 1;
  age_ = 0;
  for (std::size_t i = 0; i < before_.size(); ++i) {
    if (meet(phases[i].part, part())) age_ += before_[i];
  }
  age_change_ = age_ - age;
  return true;
}

}  // namespace hanse
