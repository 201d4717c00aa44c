// client.phases: which tensors a client's steps move one after another in a round, and for how
// long.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hanse {

struct LocalPhases {
  struct Phase {
    std::string part;    // all, shared, personal, clustered, or a pattern of names
    int64_t length = 0;  // epochs, or mini-batches where client.steps > 0; at least 1
  };
  std::vector<Phase> list;  // empty: one phase, which moves all

  // "personal 10, shared 5". Throws InvalidArgument.
  static LocalPhases parse(std::string_view text);
  std::string text() const;
  int64_t length() const;  // of all; the largest number where no integer holds it
};

}  // namespace hanse
