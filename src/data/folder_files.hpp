// What the readers of folders share: names, and what they leave out, for the line at the start.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace hanse {

// Of ASCII letters, in any locale.
std::string lower_case(std::string text);

// Belongs to the system or to a tool, not to the data: .git, .ipynb_checkpoints, ._1.png, __MACOSX,
// @eaDir.
bool is_hidden(const std::string& name);

class Unread {
 public:
  // "1 ONE", "COUNT MANY". Adds to what was added under the same words.
  void add(const std::string& one, const std::string& many, int64_t count = 1);
  // A file, counted by its ending: "12 .bmp files".
  void add_file(const std::filesystem::path& path);
  void add_hidden(bool is_folder);

  // Sorted by their words. Of many endings the most frequent ones, and the rest together.
  std::vector<std::string> texts() const;

 private:
  std::map<std::pair<std::string, std::string>, int64_t> counts_;  // (one, many)
  std::map<std::string, int64_t> endings_;
};

}  // namespace hanse
