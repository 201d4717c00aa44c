#include "hanse/base/available_memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>

namespace hanse {

namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

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

std::optional<int64_t> bytes_stated(const std::filesystem::path& file, const std::string& name) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1)) << 10;
  }
  return std::nullopt;
}

}  // namespace hanse
