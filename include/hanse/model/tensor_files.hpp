// Files of tensors that Python's torch and safetensors write. The readers take data alone: nothing
// of a file is run, whoever made it.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hanse/model/layout.hpp"

namespace hanse {

struct WeightFile {
  std::vector<NamedTensor> tensors;         // of floating-point numbers, as float32
  std::map<std::string, std::string> same;  // a further name, by which it stands above
  std::map<std::string, std::string>
      left_out;                              // types of tensors that are not read, by their names
  std::map<std::string, double> too_large;   // a finite number of a tensor that float32 lacks
  std::optional<double> adapter_scale = {};  // s of W + s B A; none: the file does not say
};

// What read_weights() reads (store/weights.hpp), for hints.
inline constexpr const char* kReadableWeights =
    "a model.h5 of a run, a state dict of torch.save, safetensors, or an index.json of such files";

// The bytes of a file.
class FileBytes {
 public:
  // Throws InvalidArgument: the file is empty; IoError: it cannot be read.
  explicit FileBytes(const std::string& path);
  std::string_view view() const { return view_; }

 private:
  std::shared_ptr<std::byte> memory_;
  std::string_view view_;
};

// The zip file of torch.save, since torch 1.6. Throws as read_weights().
WeightFile read_torch_file(const std::string& path);

// Throws as read_weights().
WeightFile read_safetensors(const std::string& path);

// The bytes of a safetensors file with the layout's tensors, float32, and its carried ones, int64;
// each name of a tensor has its values, since the format knows no two names of one place.
// REQUIRES: row.size() == layout.n_params().
std::string safetensors(const ParameterLayout& layout, std::span<const float> row);

}  // namespace hanse
