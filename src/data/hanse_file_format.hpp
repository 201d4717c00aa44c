// Parts that the writer and the reader of Hanse's own data file share.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "hanse/data/dataset.hpp"
#include "hanse/data/hdf5_file.hpp"

namespace hanse {

constexpr int64_t kHanseFileVersion = 1;
constexpr std::array<std::pair<Storage, const char*>, 4> kEncodings = {
    {{Storage::kByte, "byte/255"},
     {Storage::kFloat, "float"},
     {Storage::kToken, "token"},
     {Storage::kToken16, "token16"}}};

inline hdf5::Type feature_type(Storage storage) {
  if (storage == Storage::kToken16) return hdf5::kTypeOf<uint16_t>;
  return storage == Storage::kFloat ? hdf5::kTypeOf<float> : hdf5::kTypeOf<uint8_t>;
}

// Extents of labels and targets: several values a sample are a second extent.
inline std::vector<int64_t> label_extents(int64_t samples, const LabelForm& form) {
  if (form.values == 1 && !form.multi_label) return {samples};
  return {samples, form.values};
}

}  // namespace hanse
