// The commands of the program.
#pragma once

#include <cstddef>
#include <vector>

namespace hanse {

struct Verb {
  const char* name;
  std::size_t fewest;  // words behind it
  std::size_t most;
  bool takes_options;              // --section.key=value
  const char* missing;             // the words that it needs
  std::vector<const char*> flags;  // its own, without their dashes
};

inline const Verb kVerbs[] = {{"run", 1, 1, true, "a job file", {}},
                              {"resume", 1, 1, true, "a run directory", {}},
                              {"plan", 1, 1, true, "a job file", {"json"}},
                              {"replay", 1, 1, false, "a trace file", {"check"}},
                              {"check", 1, 1, true, "a job file", {}},
                              {"convert", 2, 2, true, "a job file and an output file", {}},
                              {"list", 0, 1, false, "", {"markdown", "man", "bash"}},
                              {"inspect", 1, 1, false, "an HDF5 file", {"verify"}}};

}  // namespace hanse
