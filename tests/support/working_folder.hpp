// The working directory of a test program: a folder of its own, where no test may leave a file.
#pragma once

#include <cstdio>
#include <filesystem>

#include "support/scratch_folder.hpp"

namespace hanse {

class WorkingFolder {
 public:
  WorkingFolder() { std::filesystem::current_path(folder_.path()); }

  // Names on stderr what tests have left.
  bool is_empty() const {
    const auto left = folder_.names();
    for (const auto& name : left) {
      std::fprintf(stderr, "a test has left %s in the working directory\n", name.c_str());
    }
    return left.empty();
  }

 private:
  ScratchFolder folder_;
};

}  // namespace hanse
