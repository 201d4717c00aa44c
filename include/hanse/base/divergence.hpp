// Numbers that have left the range in which training can go on.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include "hanse/base/error.hpp"

namespace hanse {

// A number that a rule needs is not finite.
class NotFinite : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
};

// A client's training, or what is made of it, is NaN, infinite or too large to be added up.
// run.on-divergence may take it for the run's result.
class Divergence : public TrainingError {
 public:
  static constexpr int64_t kNobody = -1;  // in the place of a client: none is to blame

  Divergence(const std::string& what, int64_t client, int64_t round, const std::string& hint);
  // This error with one more hint in front.
  Divergence hinting(const std::string& more) const;
  // This error, which is no client's.
  Divergence of_nobody() const { return {what_, kNobody, round_, hint_}; }

 private:
  std::string what_, hint_;
  int64_t round_;
};

// Does the failure say that numbers are not finite or out of range? REQUIRES: not null.
bool is_divergence(const std::exception_ptr& failure);

// The first line of an error, up to its hint.
std::string without_hint(const std::exception& error);

}  // namespace hanse
