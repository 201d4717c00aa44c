// model.start: a model that starts from the tensors of a file.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "hanse/model/model.hpp"

namespace hanse {

class Protocol;
struct Job;

// What a file says of a model.
struct WarmStart {
  std::vector<Model::StartPart> parts;
  std::vector<std::string> notes;  // lines: a prefix of names, and which tensors start otherwise
};

// The tensors of options.start, a file of read_weights(), that have the names of these tensors.
// When none has, a prefix is looked for that all names have on one side alone, such as DDP's
// "module.". A file without adapters is that of a model before it gets them. Throws
// InvalidArgument: no such file, no model in it, or tensors that differ from the model's in name or
// shape; with options.start_partial only when none is left.
// `scale` is that of the model's adapters: a file that says another one of its own is refused.
WarmStart warm_start(const ModelOptions& options, const ParameterLayout& layout, float scale = 1);

// Has the file of weights a tensor whose name begins so?
bool has_tensor(const std::string& path, const std::string& prefix);

// What names of the file have before the model's, or names of the model before the file's.
struct Prefix {
  std::string of_file, of_model;
};

// The prefix by which most names agree; none where some do as they are. Throws InvalidArgument when
// several do as well, and nothing says which is meant.
Prefix find_prefix(const std::set<std::string>& model, const std::set<std::string>& file);

// Throws InvalidArgument that names tensor and file unless the model before the first round, or in
// a checkpoint, is finite: a module or a network's file may hold anything.
void require_finite_start(const Job& job, const Protocol& protocol, const std::string& checkpoint);

}  // namespace hanse
