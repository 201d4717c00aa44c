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

void PlanSheet::add(const std::string& key, const std::string& label, const Value& value) {
  field(key, value);
  const auto* number = std::get_if<double>(&value);
  if (number && key.ends_with("_bytes")) return line(label, bytes_text(*number));
  if (number && key.ends_with("_seconds")) return line(label, seconds_text(*number));
  if (number) return line(label, fmt::format("{:.4g}", *number));
  std::visit([&](const auto& one) { line(label, fmt::format("{}", one)); }, value);
}

std::string PlanSheet::json() const {
  nlohmann::ordered_json object;
  for (const auto& [key, value] : fields_) {
    std::visit([&, &name = key](const auto& one) { object[name] = one; }, value);
  }
  return object.dump(2) + "\n";
}

}  // namespace hanse
