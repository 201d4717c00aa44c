// The time limit of a round.
#pragma once

#include <cstdint>

namespace hanse {

// Which participants of one rank count in a round with a time limit. They come in random order; who
// has not started when time is up is left out, and who has then not ended, but for the first.
//
// The others' sum times factor() has the sum over all for its mean: whatever the costs, those who
// end in time are in random order given the one in training when time is up, so that the first of
// them, which stands for all without bias, may be replaced by their mean.
class Deadline {
 public:
  // `limit_s` 0: no limit.
  explicit Deadline(double limit_s) : limit_s_(limit_s) {}
  // The next participant, or so many that train together, at this time of the round: does it start?
  bool starts(double elapsed_s, int64_t participants = 1);
  // It has ended at this time: does it count?
  bool counts(double elapsed_s);
  // All that came over those that count.
  double factor() const;

 private:
  bool is_up(double elapsed_s) const { return limit_s_ > 0 && elapsed_s >= limit_s_; }

  double limit_s_;
  int64_t next_ = 0;  // that came last
  int64_t came_ = 0;
  int64_t counted_ = 0;
};

}  // namespace hanse
