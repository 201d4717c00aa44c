// How the participants of a round get to the ranks that train them. Results do not depend on it;
// the length of a round does.
#pragma once

#include <cstdint>

namespace hanse {

enum class ServerRole;  // server_options.hpp

// Does rank 0 train clients beside serving? Alone it does; ServerRole::kAuto: on one host.
bool server_trains(ServerRole role, int64_t ranks, bool one_host);

// How a round's participants get to the ranks that train them.
enum class Dispatch {
  kPlanned,      // rank 0 says who trains whom
  kSharedQueue,  // ranks take the next participant from a counter in their host's memory
  kServedQueue   // ... from rank 0, which trains nobody
};

// `is_open`: does nothing depend on who trains whom?
Dispatch choose_dispatch(bool is_open, int64_t ranks, bool one_host, bool server_trains);

}  // namespace hanse
