// Numbers too small for a float's full precision.
#pragma once

#include <cstdint>

namespace hanse {

// While it lives, numbers below 2^-126 (doubles: 2^-1022) are 0 to the arithmetic of this thread
// and of threads that start meanwhile, as operands and as results. Models need it: gradients become
// so small where a client's samples are of one class, an operation on such a number takes as long
// as a hundred others, and adding it changes no parameter. Rules may divide by such numbers: they
// run without it. Processors other than x86 keep these numbers. Cost: some ns.
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
