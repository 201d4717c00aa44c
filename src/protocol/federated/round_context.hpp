// A round as all parts of a rank know it.
#pragma once

#include <cstdint>
#include <exception>
#include <span>

namespace hanse {

class RoundPlan;

struct RoundContext {
  int64_t number;                  // from 1
  double start_s;                  // by settings.clock
  RoundPlan& plan;                 // its participants
  std::span<const float> model;    // [P] the received model
  std::span<const float> control;  // [control width] the server's control variate, or empty
  std::exception_ptr& failure;     // of this rank: attempt()
};

}  // namespace hanse
