#include "part_choice.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fnmatch.h>

#include "hanse/base/error.hpp"

namespace hanse {

namespace {

constexpr const char* kTrain = "client.train";

// Is the pattern one of factors? It matches none of the model's own tensors, and speaks of lora.
bool is_of_factors(const std::string& pattern, const Slots& slots) {
  if (pattern.find("lora") == std::string::npos) return false;
  const auto fits = [&](const std::string& name) {
    return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  };
  return std::ranges::none_of(slots, [&](const ParameterSlot& slot) {
    return fits(slot.name) || std::ranges::any_of(slot.also, fits);
  });
}

// The tensors that are trained themselves; patterns of factors go to `factors`.
Slots chosen_tensors(const TrainedPart& part, const ParameterLayout& layout,
                     std::vector<std::string>& factors) {
  const Slots slots = trainable_slots(layout);
  if (part.train.empty()) return part.rank > 0 ? Slots() : slots;
  std::vector<std::string> tensors;
  for (const std::string& pattern : part.train) {
    (part.rank > 0 && is_of_factors(pattern, slots) ? factors : tensors).push_back(pattern);
  }
  return tensors.empty() ? Slots() : matching(slots, tensors, kTrain);
}

// The matrices that would have an adapter, whatever the rank.
Slots asked_matrices(const TrainedPart& part, const ParameterLayout& layout, const Slots& trained) {
  if (part.rank == 0) return {};
  Slots matrices = trainable_slots(layout);
  std::erase_if(matrices, [](const ParameterSlot& slot) { return slot.shape.size() != 2; });
  Slots chosen = matching(matrices, part.layers, "client.lora-layers");
  std::erase_if(chosen, [&](const ParameterSlot& slot) { return holds(trained, slot); });
  if (chosen.empty()) {
    throw InvalidArgument("all matrices that would have an adapter are trained themselves", kTrain,
                          "leave them out, or use client.lora = 0");
  }
  return chosen;
}

// Moves those that are smaller than the rank to `small`, where all matrices are asked for.
Slots without_small(Slots chosen, const TrainedPart& part, Slots& small) {
  const auto fits = [&](const ParameterSlot& slot) {
    return part.rank <= std::min(slot.shape[0], slot.shape[1]);
  };
  const auto behind = std::stable_partition(chosen.begin(), chosen.end(), fits);
  small.assign(behind, chosen.end());
  const bool may_leave_out = part.layers == std::vector<std::string>{"*"};
  if (small.empty() || (may_leave_out && small.size() < chosen.size())) {
    chosen.erase(behind, chosen.end());
    return chosen;
  }
  const ParameterSlot& first = small.front();
  throw InvalidArgument(fmt::format("a rank of {} is above a side of {} [{}, {}]", part.rank,
                                    first.name, first.shape[0], first.shape[1]),
                        "client.lora",
                        "use a smaller one, or choose other matrices by client.lora-layers");
}

// Which factors move: those that the patterns name, or all.
std::vector<AdaptedMatrix> with_moving_factors(const Slots& matrices,
                                               const std::vector<std::string>& patterns) {
  Slots factors;
  for (const ParameterSlot& matrix : matrices) {
    for (const char* factor : {".lora_A", ".lora_B"}) {
      factors.push_back({.name = matrix.name + factor});
    }
  }
  if (!patterns.empty()) factors = matching(factors, patterns, kTrain);
  std::vector<AdaptedMatrix> adapted;
  for (const ParameterSlot& matrix : matrices) {
    const auto moves = [&](const char* factor) {
      return std::ranges::count(factors, matrix.name + factor, &ParameterSlot::name) > 0;
    };
    adapted.push_back({matrix, moves(".lora_A"), moves(".lora_B")});
    if (adapted.back().a_moves || adapted.back().b_moves) continue;
    throw InvalidArgument(fmt::format("neither {0}.lora_A nor {0}.lora_B is trained", matrix.name),
                          kTrain,
                          "leave the matrix out by client.lora-layers, or train a factor of it");
  }
  return adapted;
}

}  // namespace

PartChoice choose_part(const TrainedPart& part, const ParameterLayout& layout) {
  PartChoice choice;
  std::vector<std::string> factors;
  choice.trained = chosen_tensors(part, layout, factors);
  const Slots matrices =
      without_small(asked_matrices(part, layout, choice.trained), part, choice.small);
  choice.matrices = with_moving_factors(matrices, factors);
  return choice;
}

}  // namespace hanse
