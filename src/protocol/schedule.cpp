#include "hanse/protocol/schedule.hpp"

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

bool Deadline::starts(double elapsed_s, int64_t participants) {
  next_ = participants;
  came_ += participants;
  return counted_ == 0 || !is_up(elapsed_s);
}

bool Deadline::counts(double elapsed_s) {
  if (counted_ > 0 && is_up(elapsed_s)) return false;
  counted_ += next_;
  return true;
}

double Deadline::factor() const {
  return counted_ == 0 ? 1 : static_cast<double>(came_) / static_cast<double>(counted_);
}

}  // namespace hanse
