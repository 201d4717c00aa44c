// Parts that the readers of folders share: names, and files that they leave out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace hanse {

// Changes ASCII letters alone, in any locale.
std::string lower_case(std::string text);

// Does the file belong to the system or to a tool? .git, .ipynb_checkpoints, ._1.png, __MACOSX,
// @eaDir.
bool is_hidden(const std::string& name);

// The files of a path that may have one `*`: in the file's name, or in the name of one folder.
struct PatternFiles {
  // Each with what `*` stands for, by which they are sorted. A path without a star, or of no file
  // at all: itself, with an empty text.
  std::vector<std::pair<std::string, std::string>> files;
  std::vector<std::string> unread;  // what fits the star and is left out: "1 hidden file"
};

// As in a shell `*` stands for any characters, a dot at the start not among them; nor are files and
// folders of the system and of tools taken (is_hidden). Throws InvalidArgument for two stars.
PatternFiles files_of_pattern(const std::string& path);

class Unread {
 public:
  // Counts for "1 ONE" or "COUNT MANY", on top of earlier counts for the same words.
  void add(const std::string& one, const std::string& many, int64_t count = 1);
  // Counts a file by its ending: "12 .bmp files".
  void add_file(const std::filesystem::path& path);
  void add_hidden(bool is_folder);

  // Sorted by their words. If there are many endings, the most frequent ones, and the rest.
  std::vector<std::string> texts() const;

 private:
  std::map<std::pair<std::string, std::string>, int64_t> counts_;  // (one, many)
  std::map<std::string, int64_t> endings_;
};

}  // namespace hanse
