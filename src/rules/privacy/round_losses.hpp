// Privacy losses of one Gaussian round, on a grid, rounded up.
#pragma once

#include <cstdint>
#include <vector>

namespace hanse {

// Where the losses of a round may lie: multiples of `grid`, from one to the next 1 around 0,
// further out the part `growth` of the distance from 0, and below `far` no more than `widest`.
struct LossGrid {
  double grid = 1;
  double growth = 1.0 / 128;
  int64_t widest = 1, far = 0;
};

// The losses at[i] grid of one round with their probabilities, and that of an infinite one.
struct RoundLosses {
  std::vector<int64_t> at;  // ascending
  std::vector<double> mass;
  double infinite = 0;
  double slack = 0;  // by which rounding may have made a loss too small
};

// Noise has this deviation in units of the sensitivity, and a client is in the round with
// probability `rate`. The losses are those of a client that may come, beside none (`is_removal`),
// or the other way round. What has probability `tail` or less may become infinite. The pair of laws
// on the grid is at least as easy to tell apart as the Gaussian one: the masses of both laws
// between two neighbours of the grid go to these two, such that both laws keep theirs (Doroshenko
// et al. 2022, Section 4), and each mass is taken larger, and further up, by more than its
// rounding. Cost: 0.2 us for each loss.
RoundLosses losses_of(double deviation, double rate, bool is_removal, double tail,
                      const LossGrid& grid);

}  // namespace hanse
