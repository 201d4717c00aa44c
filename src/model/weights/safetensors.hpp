// safetensors: the length of a header, 8 bytes; the header, JSON, which has type, shape and place
// of each tensor; the bytes of all, without gaps.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "hanse/model/tensor_files.hpp"

namespace hanse {

struct StoredTensor {
  std::string name;
  std::string type;  // of the format: "F32", "I64", "BOOL", ...
  std::vector<int64_t> shape;
  std::string_view bytes;  // in C's order, at any address
};

class SafetensorsFile {
 public:
  // Throws InvalidArgument, which ends with `hint`: it is no such file, or damaged; IoError: its
  // header may take more memory than there is. Cost: the header; the tensors' bytes are mapped.
  SafetensorsFile(const std::string& path, const std::string& hint);

  // In the order of their names; they live as long as the object.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& notes() const { return notes_; }  // __metadata__

 private:
  FileBytes file_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::string> notes_;
};

}  // namespace hanse
