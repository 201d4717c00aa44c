// The plan of an online job, and how a line of any plan looks.
#pragma once

#include <string>

#include "hanse/run/components.hpp"

namespace hanse {

std::string bytes_text(double bytes);
std::string plan_line(const std::string& label, const std::string& value);

// As plan_job(): rounds are tried on scratch models, whose time `ranks` ranks share.
std::string plan_online(const Job& job, Components& parts, int64_t ranks, Communicator& comm);

}  // namespace hanse
