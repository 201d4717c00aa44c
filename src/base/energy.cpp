#include "hanse/base/energy.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace hanse {

namespace {

namespace fs = std::filesystem;

std::optional<double> read_number(const fs::path& path) {
  std::ifstream file(path);
  double value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

}  // namespace

EnergyMeter::EnergyMeter(const std::string& folder) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    // "intel-rapl:0" is a processor, "intel-rapl:0:1" a part of it.
    const std::string name = entry.path().filename().string();
    if (std::ranges::count(name, ':') != 1) continue;
    const auto start = read_number(entry.path() / "energy_uj");
    if (!start) continue;
    counters_.push_back({(entry.path() / "energy_uj").string(), *start,
                         read_number(entry.path() / "max_energy_range_uj").value_or(0)});
  }
}

std::optional<double> EnergyMeter::joules() {
  if (counters_.empty()) return std::nullopt;
  for (Counter& counter : counters_) {
    const auto now = read_number(counter.file);
    if (!now) return std::nullopt;
    sum_uj_ += *now - counter.last_uj + (*now < counter.last_uj ? counter.range_uj : 0);
    counter.last_uj = *now;
  }
  return 1e-6 * sum_uj_;
}

}  // namespace hanse
