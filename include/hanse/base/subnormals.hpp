// Numbers too small for a float's full precision.
#pragma once

#include <cstdint>

namespace hanse {

// As long as it lives, numbers below 2^-126 (doubles: 2^-1022) are 0 to this thread's arithmetic,
// as operands and as results, and to that of threads that start meanwhile. For models: gradients
// become so small where a client's samples are of one class, an operation on such a number takes as
// long as a hundred others, and a parameter does not change when it is added. Not for rules, which
// may divide by it. Processors other than x86 keep these numbers. Cost: some ns.
class FlushSubnormals {
 public:
  FlushSubnormals();
  ~FlushSubnormals();
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
  uint32_t before_ = 0;
};

}  // namespace hanse
