// How the participants of a round get to the ranks that train them, which changes its length and no
// result, and the time limit of a round.
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

// Decides which participants of one rank count in a round with a time limit. They come in random
// order; those who have not started when time is up are left out, and those who have not ended
// then, but for the first.
//
// The counted sum times factor() has the sum over all as its mean: whatever the costs, participants
// who end in time are in random order given the one in training when time is up, so that the first
// of them, which stands for all without bias, may be replaced by their mean.
class Deadline {
 public:
  // `limit_s` 0: no limit.
  explicit Deadline(double limit_s) : limit_s_(limit_s) {}
  // Does the next participant, or a group that trains together, start at this time of the round?
  bool starts(double elapsed_s, int64_t participants = 1);
  // Does it count, having ended at this time?
  bool counts(double elapsed_s);
  // The number of participants that came, over the number that count.
  double factor() const;

 private:
  bool is_up(double elapsed_s) const { return limit_s_ > 0 && elapsed_s >= limit_s_; }

  double limit_s_;
  int64_t next_ = 0;  // position of the next participant
  int64_t came_ = 0;
  int64_t counted_ = 0;
};

}  // namespace hanse
