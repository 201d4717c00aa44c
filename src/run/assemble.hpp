// The protocols' objects, each with what it needs.
#pragma once

#include <memory>

#include "hanse/run/assembly.hpp"

namespace hanse {

// Collective. Each throws AgreedError.
std::unique_ptr<Assembly> assemble_federated(const Job& job, Communicator& comm);
std::unique_ptr<Assembly> assemble_centralized(const Job& job, Communicator& comm);
std::unique_ptr<Assembly> assemble_local(const Job& job, Communicator& comm);
std::unique_ptr<Assembly> assemble_online(const Job& job, Communicator& comm);
std::unique_ptr<Assembly> assemble_bandit(const Job& job, Communicator& comm);

}  // namespace hanse
