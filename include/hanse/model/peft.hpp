// Adapters in the format of Python's PEFT: a folder with
//   adapter_config.json         peft_type, r, lora_alpha, use_rslora, target_modules, ...
//   adapter_model.safetensors   (or adapter_model.bin, by torch.save) base_model.model.MODULE and
//     .lora_A.weight [r, in], .lora_B.weight [out, r]     of a layer y = x W', delta W = s B A
//     .lora_embedding_A [r, vocabulary], .lora_embedding_B [dim, r]       delta W = (s B A)'
// A layer that stores W as [in, out] (transformers' Conv1D) has the first two, and the delta of an
// embedding. Beside adapters of embeddings PEFT saves the matrices (.base_layer.weight), as the
// model has them. Ours are A [r, columns] and B [rows, r] of W [rows, columns] as it is stored:
// where theirs are turned, ours are A = (theirs B)' and B = (theirs A)'.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hanse/model/adapters.hpp"
#include "hanse/model/layout.hpp"

namespace hanse {

struct PeftConfig {
  int64_t rank = 0;
  double alpha = 0;
  bool root = false;  // s = alpha / sqrt(rank) (use_rslora), else alpha / rank

  double scale() const;
};

struct PeftAdapter {
  std::string module;         // "transformer.h.0.attn.c_attn"
  bool is_embedding = false;  // by the names of its tensors
  int64_t in = 0, out = 0;
  std::vector<float> a, b;  // [rank, in], [out, rank], theirs
  NamedTensor base = {};    // the matrix itself, where the file has it; else without values
};

struct PeftFile {
  PeftConfig config;
  std::vector<PeftAdapter> adapters;  // by name
};

// Reads adapter_config.json. Throws InvalidArgument, which names `path`: no JSON, numbers that are
// missing or out of range, or what is more than W_0 + s B A with one rank and one scale: another
// peft_type, use_dora, bias, modules_to_save, ranks or alphas by layer, starts that change W_0.
PeftConfig peft_config(std::string_view text, const std::string& path);

// Reads such a folder. Throws InvalidArgument: as above; a file that is missing or damaged; tensors
// that are no factors of that rank.
PeftFile read_peft(const std::string& folder);
// Its files.
std::vector<std::string> peft_files(const std::string& folder);

// An adapter of ours for W [rows, columns] from theirs. Throws InvalidArgument: their shapes fit
// neither way. `use`: the matrix under the adapter's name.
struct OwnFactors {
  std::vector<float> a, b;  // [rank, columns], [rows, rank]
};
OwnFactors own_factors(const PeftAdapter& theirs, const std::vector<int64_t>& shape, MatrixUse use);

// What PEFT would read, from adapters of ours, each under all names of its matrix. `modules` are
// all that the model has, so that target_modules matches no other. Throws InvalidArgument: a matrix
// that is no module's weight.
struct PeftText {
  std::string config, tensors;
};
PeftText write_peft(std::span<const NamedAdapter> adapters, const PeftConfig& config,
                    double dropout, const ParameterLayout& all);

}  // namespace hanse
