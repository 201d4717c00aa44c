// The order of an exchange on a rank: up, step, down. Private to comm/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hanse/base/clock.hpp"
#include "hanse/base/scope.hpp"
#include "hanse/comm/communicator.hpp"
#include "pipeline.hpp"

namespace hanse {

// As the sum comes up, piece by piece, take(i) hands each piece to `step`, and the result goes
// down. A null `step`: this rank does not step. wait(advance, done) calls advance() until done().
template <class Up, class Down, class Take, class Wait>
ExchangeTimes step_between(Up& up, Down& down, const Chunks& there, Take take,
                           const ExchangeStep* step, Wait wait) {
  const double start_s = monotonic_seconds();
  double all_there_s = start_s;
  ExchangeTimes times;
  int64_t stepped = 0;
  const auto advance = [&] {
    const bool came = up.advance();
    for (; step != nullptr && stepped < up.ready(); ++stepped) {
      all_there_s = monotonic_seconds();
      const Scope timer(times.step_s);
      const auto length = static_cast<std::size_t>(there.length(stepped));
      (*step)(stepped * there.chunk, {take(stepped), length});
      down.release(stepped + 1);
    }
    return down.advance() || came;
  };
  wait(advance, [&] { return up.done() && down.done(); });
  times.reduce_s = std::max(0.0, all_there_s - start_s - times.step_s);
  times.broadcast_s = monotonic_seconds() - start_s - times.reduce_s - times.step_s;
  return times;
}

}  // namespace hanse
