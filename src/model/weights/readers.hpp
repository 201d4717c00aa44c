// What the readers of files of tensors share.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "hanse/model/tensor_files.hpp"
#include "weights/elements.hpp"

namespace hanse {

// Collects the tensors of a file, whose bytes outlive it, and then makes float32 of all at once.
class TensorsOfFile {
 public:
  explicit TensorsOfFile(std::string path) : path_(std::move(path)) {}

  // `place` names the bytes and how they are read: a further name of the same is noted as such.
  void add(const std::string& name, const std::string& place, StridedValues values);
  // Notes a tensor of integers, which is not read.
  void leave_out(const std::string& name, const std::string& type) { left_out_[name] = type; }
  // Throws InvalidArgument: a name stands there twice; IoError: they take more memory than there
  // is.
  WeightFile read() const;

 private:
  struct Entry {
    std::string name;
    StridedValues values;
  };
  std::string path_;
  std::vector<Entry> entries_;
  std::map<std::string, std::string> places_, same_, left_out_;
};

}  // namespace hanse
