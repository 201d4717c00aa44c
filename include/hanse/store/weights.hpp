// Trained weights in files from elsewhere: what Python's torch and safetensors write. The readers
// take data alone: nothing of a file is run, whoever made it.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "hanse/model/layout.hpp"

namespace hanse {

struct WeightFile {
  std::vector<NamedTensor> tensors;         // of floating-point numbers, as float32
  std::map<std::string, std::string> same;  // a further name of a tensor, by which it stands above
};

// Reads the tensors of
//   torch.save       a dictionary of tensors by their names (a plain or an ordered one, of tensors
//                    or parameters), or a dictionary that has one such dictionary among its values
//   safetensors      of float64, float32, float16 and bfloat16
//   an index.json    of such files, its shards, which lie beside it
//   HDF5             model.h5 of a run, or any file that has float32 tensors at its root
// Integers are left out. Throws InvalidArgument, which names the file: none of these, damaged, or
// with types of numbers that are not read; IoError: it takes more memory than there is.
// Cost: a pass over the values.
WeightFile read_weights(const std::string& path);

// The file itself and, where it is an index, its shards. Throws InvalidArgument as read_weights().
std::vector<std::string> weight_files(const std::string& path);

// The bytes of a safetensors file with the layout's tensors, float32, and its carried ones, int64.
// REQUIRES: row.size() == layout.n_params().
std::string safetensors(const ParameterLayout& layout, std::span<const float> row);

}  // namespace hanse
