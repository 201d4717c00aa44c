// The readers behind read_weights(), one a format. All throw InvalidArgument as it does.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hanse/store/weights.hpp"
#include "weights/elements.hpp"

namespace hanse {

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

// Collects the tensors of a file, whose bytes outlive it, and then makes float32 of all at once.
class TensorsOfFile {
 public:
  explicit TensorsOfFile(std::string path) : path_(std::move(path)) {}

  // `place` names the bytes and how they are read: a further name of the same is noted as such.
  void add(const std::string& name, const std::string& place, StridedValues values);
  // Throws IoError: they take more memory than there is.
  WeightFile read() const;

 private:
  struct Entry {
    std::string name;
    StridedValues values;
  };
  std::string path_;
  std::vector<Entry> entries_;
  std::map<std::string, std::string> places_, same_;
};

// The zip file of torch.save, since torch 1.6.
WeightFile read_torch_file(const std::string& path);
WeightFile read_safetensors(const std::string& path);

}  // namespace hanse
