// The fields of Hanse's own data file, each checked as it is read.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hanse/data/dataset.hpp"
#include "hanse/data/hdf5_file.hpp"

namespace hanse {

// The writer and the reader share these.
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

inline constexpr const char* kHanseFileHint =
    "write it with hanse convert; data/clients.md has the format";

// All functions below throw InvalidArgument with the file and the field that does not fit.
[[noreturn]] void refuse_file(const std::string& what, const std::string& path,
                              const std::string& name);

// Reads attributes. REQUIRES: they exist.
int64_t read_number(const hdf5::File& file, const std::string& name);
Storage read_encoding(const hdf5::File& file);

// Checks the type and the place of a dataset; returns its extents and its offset.
std::vector<int64_t> locate(const hdf5::File& file, const std::string& name, const hdf5::Type& type,
                            int64_t& start);

// Reads a dataset with one extent.
std::vector<int64_t> read_list(const hdf5::File& file, const std::string& name);

// Reads none, or `count` names: of fixed length, as hanse convert writes them, or of any.
std::vector<std::string> read_names(const hdf5::File& file, const std::string& name, int64_t count);

}  // namespace hanse
