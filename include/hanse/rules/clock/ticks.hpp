// Virtual time: whole microseconds since the start of the run.
//
// Durations are computed in float64 and rounded once; from there on only integers are added and
// compared, so that the order of events is the same everywhere.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace hanse {

using Ticks = int64_t;

constexpr Ticks kNever = std::numeric_limits<Ticks>::max();
constexpr Ticks kMostTicks = Ticks{1} << 62;  // of one duration
constexpr int64_t kNobody = -1;               // a duration that is no client's

// max(1, llrint(1e6 seconds)). Throws InvalidArgument, naming the client, when `seconds` is
// negative, not finite, or above kMostTicks.
Ticks ticks_of(double seconds, int64_t client = kNobody);

inline double seconds_of(Ticks ticks) { return static_cast<double>(ticks) / 1e6; }
// Appends the seconds to the last digit: "12.000001", "0.5", "3". REQUIRES: ticks >= 0.
void append_seconds(std::string& text, Ticks ticks);

// a + b. Throws InvalidArgument, naming the client, when the time is beyond kMostTicks.
Ticks later(Ticks a, Ticks b, int64_t client = kNobody);
// n times the duration, likewise.
Ticks multiple(int64_t n, Ticks duration, int64_t client = kNobody);

// ceil(x) where x is a product of a whole number and a decimal fraction: 55.00000000000001, which
// is 1.1 x 50 in binary, is 55.
int64_t ceil_of_product(double x);

}  // namespace hanse
