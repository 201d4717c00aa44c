// The keys of the sections of online federations, bandits and statistics.
#pragma once

#include "hanse/job/job.hpp"

namespace hanse {

class OptionTable;

void bind_bandit(OptionTable& table, BanditOptions& bandit);
void bind_online(OptionTable& table, OnlineOptions& online);
void bind_statistics(OptionTable& table, StatisticsOptions& statistics);

}  // namespace hanse
