// Memory that the processes of a host share. Private to comm/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "hanse/comm/communicator.hpp"

namespace hanse {

// Collective; Communicator::allocate_shared() over the processes of one host.
std::shared_ptr<std::byte> share_memory(Communicator& comm, int64_t bytes);

}  // namespace hanse
