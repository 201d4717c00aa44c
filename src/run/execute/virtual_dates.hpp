// What is due by virtual time.
#pragma once

#include <cmath>
#include <string>

#include <fmt/format.h>

#include "hanse/base/state.hpp"
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

  // Are evaluations made by virtual time, and is one due behind this round?
  bool evaluates_by_time() const { return every_ > 0; }
  bool evaluates() const { return is_due_; }
  // Does the run end with this round, and why?
  bool is_over() const { return end_ > 0 && seconds_ >= end_; }
  std::string end() const { return fmt::format("run.virtual-seconds = {}", end_); }

 private:
  void visit(StateFields& fields) override { fields.one("seconds", seconds_); }

  double every_, end_;
  double seconds_ = 0;
  bool is_due_ = false;
};

}  // namespace hanse
