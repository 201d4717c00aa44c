// The pictures of a folder of classes; data/README.md has the grammar.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hanse {

struct PictureFile {
  std::string path;
  int32_t label;
};

struct PictureFolder {
  std::vector<std::string> classes;  // sorted by their bytes
  std::vector<PictureFile> files;    // class after class, sorted by the bytes of their paths
  int64_t test_begin = -1;           // the test part's files start here; -1: none
  std::vector<std::string> unread;   // as in Dataset
};

// Opens no picture. Throws InvalidArgument: a folder that cannot be read, a class without a picture
// or with test pictures alone, folders that may be parts of the data or classes.
PictureFolder list_pictures(const std::string& folder);

}  // namespace hanse
