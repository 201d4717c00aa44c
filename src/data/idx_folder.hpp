// Finds the images and labels of an IDX data set in a folder.
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

// Goes by the names that data/README.md gives; opens no file. Throws InvalidArgument: a file is
// missing, or there are files of several data sets.
IdxFolder list_idx(const std::string& folder);

}  // namespace hanse
