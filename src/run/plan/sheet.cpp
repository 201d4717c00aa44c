#include "sheet.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hanse/base/progress.hpp"

namespace hanse {

namespace {

std::string bytes_text(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.2f} GB", bytes / 1e9);
  if (bytes >= 1e6) return fmt::format("{:.1f} MB", bytes / 1e6);
  return fmt::format("{:.1f} kB", bytes / 1e3);
}

std::string seconds_text(double seconds) {
  if (seconds >= 100) return duration_text(seconds);
  return seconds >= 1 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.3g} ms", 1e3 * seconds);
}

}  // namespace

void PlanSheet::line(const std::string& label, const std::string& value) {
  lines_ += fmt::format("{:<34} {}\n", label, value);
}

void PlanSheet::field(const std::string& key, Value value) {
  fields_.emplace_back(key, std::move(value));
}

void PlanSheet::text(const std::string& key, const std::string& label, const std::string& value) {
  line(label, value);
  field(key, value);
}

void PlanSheet::count(const std::string& key, const std::string& label, int64_t value) {
  line(label, fmt::format("{}", value));
  field(key, value);
}

void PlanSheet::bytes(const std::string& key, const std::string& label, double value) {
  line(label, bytes_text(value));
  field(key, value);
}

void PlanSheet::seconds(const std::string& key, const std::string& label, double value) {
  line(label, seconds_text(value));
  field(key, value);
}

std::string PlanSheet::json() const {
  nlohmann::ordered_json object;
  for (const auto& [key, value] : fields_) {
    std::visit([&, &name = key](const auto& one) { object[name] = one; }, value);
  }
  return object.dump(2) + "\n";
}

}  // namespace hanse
