// What is due by virtual time.
#pragma once

#include <cmath>
#include <string>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/state.hpp"
#include "hanse/protocol/protocol.hpp"
#include "hanse/rules/clock/options.hpp"

namespace hanse {

class VirtualDates final : public Stateful {
 public:
  explicit VirtualDates(const ClockOptions& options)
      : every_(options.is_on() ? options.evaluate_seconds : 0),
        end_(options.is_on() ? options.virtual_seconds : 0) {}

  // A round has ended at this virtual second. REQUIRES: seconds that grow.
  void go_on_to(double seconds) {
    is_due_ = every_ > 0 && std::floor(seconds / every_) > std::floor(seconds_ / every_);
    seconds_ = seconds;
  }
  double seconds() const { return seconds_; }
  double limit() const { return end_; }  // 0: none

  // This round does not happen: it would end behind the limit. Throws InvalidArgument where it is
  // the first.
  void leave_out(const RoundRecord& record) {
    const double end = record.virtual_seconds;
    if (record.round == 1) {
      throw InvalidArgument(
          fmt::format("no round fits: the first one ends after {:.6g} virtual seconds", end),
          fmt::format("run.virtual-seconds = {}", end_), "allow more of them");
    }
    left_out_ = fmt::format("; round {} would end at {:.6g}", record.round, end);
  }

  // Are evaluations made by virtual time, and is one due behind this round?
  bool evaluates_by_time() const { return every_ > 0; }
  bool evaluates() const { return is_due_; }
  // Does the run end with this round, and why?
  bool is_over() const { return end_ > 0 && (seconds_ >= end_ || !left_out_.empty()); }
  std::string end() const {
    return fmt::format("run.virtual-seconds = {}, of which {:.6g} are used{}", end_, seconds_,
                       left_out_);
  }

 private:
  void visit(StateFields& fields) override { fields.one("seconds", seconds_); }

  double every_, end_;
  double seconds_ = 0;
  std::string left_out_;  // the round that does not happen; empty: there is none
  bool is_due_ = false;
};

}  // namespace hanse
