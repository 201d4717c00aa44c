// model.start: a model that starts from the tensors of a file.
#pragma once

#include <string>

#include "hanse/model/model.hpp"

namespace hanse {

// Gives the model the tensors of options.start, a model.h5 or a state dict of torch.save, by their
// names. Returns a line that says which tensors start otherwise; empty: none.
// Throws InvalidArgument: no such file, no model in it, or tensors that differ from the model's in
// name or shape; with options.start_partial only when none is left.
std::string warm_start(const ModelOptions& options, Model& model);

}  // namespace hanse
