// What became of a choice of a key.
#pragma once

#include <string>

namespace hanse {

// A choice that was one, and what there is in its place.
struct FormerChoice {
  std::string name, hint;
};

}  // namespace hanse
