// Losses of the user's own, saved from Python.
#pragma once

#include <memory>

#include "objective.hpp"

namespace hanse {

// The objective of a scripted module whose forward returns the loss of a batch; train_for() says
// what it gets. Random operators draw from LibTorch's generator, which every step seeds from the
// client's stream. Throws InvalidArgument.
std::unique_ptr<Objective> make_objective(const ObjectiveCase& c);

}  // namespace hanse
