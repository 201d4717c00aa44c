#include "hanse/base/available_memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

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

int64_t machine_memory(const std::filesystem::path& root) {
  std::ifstream file(root / "proc/meminfo");
  std::string name;
  while (file >> name) {
    int64_t kilobytes = 0;
    if (name == "MemAvailable:" && file >> kilobytes) return kilobytes << 10;
  }
  return kNoLimit;
}

}  // namespace

int64_t available_memory(const std::filesystem::path& root) {
  return std::min(machine_memory(root), group_limit(root));
}

}  // namespace hanse
