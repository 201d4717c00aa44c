#include "hanse/base/available_memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>

#include <fmt/format.h>

#include "hanse/base/error.hpp"

namespace hanse {

namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
constexpr int64_t kFewBytes = int64_t{16} << 20;

// A file with one number; "max" and a file that is not there are none.
int64_t limit_in(const std::filesystem::path& path) {
  int64_t limit = kNoLimit;
  std::ifstream file(path);
  return file >> limit ? limit : kNoLimit;
}

// A group is bound by the limits of those around it.
int64_t lowest_limit(const std::filesystem::path& mount, std::filesystem::path group,
                     const char* name) {
  int64_t lowest = limit_in(mount / name);
  for (; group.has_relative_path(); group = group.parent_path()) {
    lowest = std::min(lowest, limit_in(mount / group.relative_path() / name));
  }
  return lowest;
}

// Lines "NUMBER:CONTROLLERS:GROUP", without controllers in the second version.
int64_t group_limit(const std::filesystem::path& root) {
  const std::filesystem::path mount = root / "sys/fs/cgroup";
  std::ifstream file(root / "proc/self/cgroup");
  std::string number, controllers, group;
  while (std::getline(file, number, ':') && std::getline(file, controllers, ':') &&
         std::getline(file, group)) {
    if (controllers.empty()) return lowest_limit(mount, group, "memory.max");
    if (controllers == "memory") {
      return lowest_limit(mount / "memory", group, "memory.limit_in_bytes");
    }
  }
  return kNoLimit;
}

}  // namespace

int64_t available_memory(const std::filesystem::path& root) {
  return std::min(bytes_stated(root / "proc/meminfo", "MemAvailable").value_or(kNoLimit),
                  group_limit(root));
}

void require_memory(int64_t bytes, const std::string& what, const std::string& where,
                    const std::string& hint) {
  if (bytes < kFewBytes) return;
  const int64_t available = available_memory();
  if (bytes <= available) return;
  throw IoError(
      fmt::format("{} {:.1f} GB of memory, and there are {:.1f} GB", what,
                  1e-9 * static_cast<double>(bytes), 1e-9 * static_cast<double>(available)),
      where, hint);
}

std::optional<int64_t> bytes_stated(const std::filesystem::path& file, const std::string& name) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1)) << 10;
  }
  return std::nullopt;
}

}  // namespace hanse
