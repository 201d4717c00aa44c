// What is fuzzed: one harness for each reader of files.
#pragma once

#include <string>
#include <vector>

namespace hanse {

struct FuzzedReader {
  std::string name;
  // Reads the input by the function that the program calls. An Error is an answer; anything else
  // that is thrown, a crash and undefined behaviour are finds. `folder` is for files.
  void (*read)(const std::string& input, const std::string& folder);
  // Inputs to begin with.
  std::vector<std::string> (*seeds)(const std::string& folder);
};

const std::vector<FuzzedReader>& fuzzed_readers();

// An input of data.kind = idx is two files: the length of the first in two bytes, then both.
std::string idx_input(const std::string& images, const std::string& labels);

void write_bytes(const std::string& path, const std::string& bytes);
std::string bytes_of(const std::string& path);

}  // namespace hanse
