// Choosing a step of a StepTable, where the device counts the steps.
#pragma once

#include <cstdint>

#include "hanse/base/both_sides.hpp"

namespace hanse {

// An item is a number of the step so many behind the counter.
struct ChooseWork {
  const int64_t* table;  // the counter, then [steps, width]
  int64_t ahead, width;
  int64_t* now;  // [width]

  HANSE_BOTH_SIDES void operator()(int64_t i) const {
    now[i] = table[1 + (table[0] + ahead) * width + i];
  }
};

}  // namespace hanse
