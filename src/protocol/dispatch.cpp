#include "hanse/protocol/dispatch.hpp"

#include "hanse/protocol/server_options.hpp"

namespace hanse {

bool server_trains(ServerRole role, int64_t ranks, bool one_host) {
  if (ranks == 1) return true;
  return role == ServerRole::kAuto ? one_host : role == ServerRole::kShared;
}

Dispatch choose_dispatch(bool is_open, int64_t ranks, bool one_host, bool server_trains) {
  if (!is_open || ranks == 1) return Dispatch::kPlanned;
  if (one_host) return Dispatch::kSharedQueue;
  return server_trains ? Dispatch::kPlanned : Dispatch::kServedQueue;
}

}  // namespace hanse
