// model.start: a model that starts from the tensors of a file.
#pragma once

#include <string>
#include <vector>

#include "hanse/model/model.hpp"

namespace hanse {

class Protocol;
struct Job;

// What a file says of a model.
struct WarmStart {
  std::vector<Model::StartPart> parts;
  std::string differs;  // a line that says which tensors start otherwise; empty: none
};

// The tensors of options.start, a model.h5 or a state dict of torch.save, that have the names of
// these tensors. A file without adapters is that of a model before it gets them. Throws
// InvalidArgument: no such file, no model in it, or tensors that differ from the model's in name or
// shape; with options.start_partial only when none is left.
WarmStart warm_start(const ModelOptions& options, const ParameterLayout& layout);

// Throws InvalidArgument that names tensor and file unless the model before the first round, or in
// a checkpoint, is finite: a module or a network's file may hold anything.
void require_finite_start(const Job& job, const Protocol& protocol, const std::string& checkpoint);

}  // namespace hanse
