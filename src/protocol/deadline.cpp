#include "hanse/protocol/deadline.hpp"

#include "hanse/base/index.hpp"

namespace hanse {

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
