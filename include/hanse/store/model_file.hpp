// Trained models as HDF5 files: one dataset a tensor, with its shape and its name in the layout,
// and the whole parameter row again as /row. Example, a 784-10 linear model:
//   fc.weight [10, 784], fc.bias [10], row [7850]; all float32.
// If a part of the model was trained, the attribute `frozen` counts the values of the rest. If it
// has adapters of another scale than 1, `adapter_scale` says it: W + s B A. Integers that the model
// carries are datasets of int64, and no part of the row. The file begins with a seal
// (data/seal.hpp). The attribute `features` is features.csv (data/feature_record.hpp), unless it
// has more bytes than kLongestFeatures, or none were given.
#pragma once

#include <span>
#include <string>

#include "hanse/model/layout.hpp"
#include "hanse/model/tensor_files.hpp"

namespace hanse {

// Writes the file under a temporary name beside `path`, flushes it to the disk and renames it: a
// complete file replaces the old one, or none does. Throws IoError. REQUIRES: row.size() ==
// layout.n_params().
void write_model(const std::string& path, const ParameterLayout& layout, std::span<const float> row,
                 const std::string& features = "", float adapter_scale = 1);

// An attribute has no room for more.
constexpr int64_t kLongestFeatures = 60000;

// The float32 tensors of such a file, or of any HDF5 file that has them at its root; other numbers
// are left out. Throws InvalidArgument when it cannot be read, or is damaged.
WeightFile read_model(const std::string& path);

}  // namespace hanse
