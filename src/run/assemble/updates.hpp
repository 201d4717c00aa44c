// How the clients of a federated job train.
#pragma once

#include "assemble.hpp"

namespace hanse {

// Has the model trained for another loss than model.loss, where the job names one. Collective.
// Throws AgreedError.
void take_objective(const Job& job, Communicator& comm, FederatedAssembly& parts);

// Makes what trains, and checks that it goes with the rest. Collective. Throws AgreedError.
void make_updates(const AggregatorNeeds& rule, Communicator& comm, FederatedAssembly& parts);

}  // namespace hanse
