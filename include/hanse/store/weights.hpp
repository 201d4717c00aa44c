// Trained weights in files from elsewhere: what Python's torch and safetensors write
// (model/tensor_files.hpp), and our own model.h5.
#pragma once

#include <string>
#include <vector>

#include "hanse/model/tensor_files.hpp"

namespace hanse {

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

}  // namespace hanse
