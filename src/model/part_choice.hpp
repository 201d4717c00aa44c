// Which tensors of a model a part trains, and which have adapters.
#pragma once

#include <string>
#include <vector>

#include "hanse/model/layout.hpp"
#include "hanse/model/trained_part.hpp"

namespace hanse {

using Slots = std::vector<ParameterSlot>;

// A matrix with an adapter, and which of its factors move.
struct AdaptedMatrix {
  ParameterSlot slot;
  bool a_moves, b_moves;
};

struct PartChoice {
  Slots trained;                        // themselves
  std::vector<AdaptedMatrix> matrices;  // with adapters
  Slots small;                          // without one: a side is below the rank
};

// Throws InvalidArgument as PartModel's constructor.
PartChoice choose_part(const TrainedPart& part, const ParameterLayout& layout);

}  // namespace hanse
