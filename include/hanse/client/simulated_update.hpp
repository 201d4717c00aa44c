// Clients that are not trained: their updates are made up, and the cost of training is declared.
#pragma once

#include <memory>

#include "hanse/client/local_update.hpp"
#include "hanse/data/federation.hpp"

namespace hanse {

// What clients send and keep is of the size that `inner` says, their updates' entries are uniform
// in [-2^-10, 2^-10), functions of (seed, round, client, entry), and the time that passes is
// `sample_s` for each sample that a client would train on. Losses are uniform in [1, 2); a rate is
// 1. Not for clients whose messages the server inverts (fednew, fednl). Cost: a draw an entry.
std::unique_ptr<LocalUpdate> make_simulated_update(std::unique_ptr<LocalUpdate> inner,
                                                   const Federation& federation, double sample_s);

}  // namespace hanse
