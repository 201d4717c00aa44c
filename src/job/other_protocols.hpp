// The keys of the sections of online federations and bandits.
#pragma once

#include "hanse/job/job.hpp"

namespace hanse {

class OptionTable;

void bind_bandit(OptionTable& table, BanditOptions& bandit);
void bind_online(OptionTable& table, OnlineOptions& online);

}  // namespace hanse
