// Which files of a folder are the images and labels of an IDX data set.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace hanse {

// The paths of the files of a part of the data.
struct IdxPart {
  std::string images, labels;
};

struct IdxFolder {
  IdxPart train;
  std::optional<IdxPart> test;
  std::vector<std::string> unread;  // as in Dataset
};

// By their names, which data/README.md gives; opens no file. Throws InvalidArgument: a file is
// missing, or there are the files of several data sets.
IdxFolder list_idx(const std::string& folder);

}  // namespace hanse
