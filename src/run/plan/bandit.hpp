// The plan of a bandit's job.
#pragma once

#include "hanse/protocol/bandit.hpp"
#include "hanse/job/job.hpp"
#include "sheet.hpp"

namespace hanse {

void plan_bandit(const Job& job, const BanditProtocol& bandit, int64_t ranks, PlanSheet& sheet);

}  // namespace hanse
