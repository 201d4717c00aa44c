// The machines that a plan is for: what the command line gives, and for the rest what is here.
#pragma once

#include <string>

#include "cost.hpp"
#include "hanse/run/plan.hpp"
#include "measure.hpp"
#include "sheet.hpp"

namespace hanse {

// The ranks of `comm` on their hosts. Collective.
Cluster started_cluster(const Job& job, Communicator& comm, Communicator& host);

// Throws InvalidArgument when there are more hosts than ranks.
Cluster planned_cluster(const PlanOptions& options, const Job& job, const Cluster& started);

// Sets the links: given, measured between as many hosts, or assumed; between the ranks of a host
// measured, or two copies through its memory. Returns which it is: "given", "measured", "assumed".
std::string set_links(const PlanOptions& options, const Rates& rates, const Cluster& started,
                      Cluster& planned);

void describe(const Cluster& cluster, const std::string& source, PlanSheet& sheet);

}  // namespace hanse
