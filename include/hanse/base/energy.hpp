// The energy that a host's processors take, where the system shows it.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace hanse {

// Reads the counters of /sys/class/powercap, a domain for each processor. They wrap around: a meter
// that is asked less than once in some minutes counts too little.
class EnergyMeter {
 public:
  // Tests give a folder of their own.
  explicit EnergyMeter(const std::string& folder = "/sys/class/powercap");

  // Joules that this host took since the object was made; nothing where no counter can be read.
  std::optional<double> joules();

 private:
  struct Counter {
    std::string file;
    double last_uj, range_uj;
  };

  std::vector<Counter> counters_;
  double sum_uj_ = 0;
};

}  // namespace hanse
