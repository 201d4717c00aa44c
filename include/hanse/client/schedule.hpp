// How a client's step size moves over the rounds of a run, or over the steps of each round.
#pragma once

#include <cstdint>
#include <vector>

#include "hanse/client/options.hpp"

namespace hanse {

template <class Options>
struct KindRow;  // base/kind.hpp

// The step size of a round (from 1). With schedule.over = steps it is options.lr in all of them.
double learning_rate(const ClientOptions& options, int64_t round);

// The step size of step `step` (from 0) of `steps` in this round: with schedule.over = rounds the
// round's.
//
// By schedule.kind, of t (from 0) of T rounds or steps behind the warm-up, lr times
//   constant     1
//   step         decay^floor(t / every)
//   exponential  decay^(t / every)
//   linear       1 + (end - 1) t / T
//   cosine       end + (1 - end) (1 + cos(pi t / T)) / 2       (Loshchilov and Hutter 2017)
//   one-cycle    torch's OneCycleLR: by cosines from 1/25 to 1 in 0.3 T, and down to 1/250000
// (Smith and Topin 2018). Behind T it stays as at T - 1. In a warm-up of n it is (t + 1) / n.
double step_size(const ClientOptions& options, int64_t round, int64_t step, int64_t steps);

// The kinds of schedule.kind.
std::vector<KindRow<ClientOptions>> schedule_kinds();

}  // namespace hanse
