#include "hanse/base/available_memory.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <latch>
#include <limits>
#include <new>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "hanse/base/error.hpp"
#include "hanse/base/scope.hpp"

namespace hanse {

namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
constexpr int64_t kFewBytes = int64_t{16} << 20;

// The number in a file; "max" or a missing file is no limit.
int64_t limit_in(const std::filesystem::path& path) {
  int64_t limit = kNoLimit;
  std::ifstream file(path);
  return file >> limit ? limit : kNoLimit;
}

// A group is bound by the limits of the groups around it, too.
int64_t lowest_limit(const std::filesystem::path& mount, std::filesystem::path group,
                     const char* name) {
  int64_t lowest = limit_in(mount / name);
  for (; group.has_relative_path(); group = group.parent_path()) {
    lowest = std::min(lowest, limit_in(mount / group.relative_path() / name));
  }
  return lowest;
}

// Reads lines "NUMBER:CONTROLLERS:GROUP", without controllers in the second version.
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

// A limit of the process, and the line of its status that tells how much is used.
struct ProcessLimit {
  int resource;
  const char* used;
  const char* name;
};
constexpr std::array kProcessLimits = {
    ProcessLimit{RLIMIT_AS, "VmSize", "the address space (ulimit -v, h_vmem of SGE)"},
    ProcessLimit{RLIMIT_DATA, "VmData", "its data (ulimit -d)"}};

int64_t bytes_allowed(const ProcessLimit& limit) {
  rlimit found = {};
  if (getrlimit(static_cast<__rlimit_resource>(limit.resource), &found) != 0) return kNoLimit;
  return found.rlim_cur == RLIM_INFINITY ? kNoLimit : static_cast<int64_t>(found.rlim_cur);
}

// The bytes that the limit leaves for the process.
int64_t bytes_left(const ProcessLimit& limit, const std::filesystem::path& root) {
  const int64_t allowed = bytes_allowed(limit);
  if (allowed == kNoLimit) return kNoLimit;
  const auto used = bytes_stated(root / "proc/self/status", limit.used);
  return std::max<int64_t>(0, allowed - used.value_or(0));
}

// "the address space (ulimit -v, h_vmem of SGE) is limited to 0.2 GB"; empty: no limit.
std::string limits_text() {
  std::string text;
  for (const ProcessLimit& limit : kProcessLimits) {
    const int64_t allowed = bytes_allowed(limit);
    if (allowed == kNoLimit) continue;
    text += fmt::format("{}{} is limited to {:.3g} GB", text.empty() ? "" : ", ", limit.name,
                        1e-9 * static_cast<double>(allowed));
  }
  return text;
}

// Starts threads that wait for each other, so that all exist at once.
void try_threads(int64_t threads) {
  std::latch all_tried(1);
  std::vector<std::thread> started;
  std::exception_ptr failure;
  try {
    for (int64_t i = 0; i < threads; ++i) started.emplace_back([&] { all_tried.wait(); });
  } catch (...) {
    failure = std::current_exception();
  }
  all_tried.count_down();
  for (std::thread& one : started) one.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

void require_threads(int64_t threads, const TriedMemory& memory, const std::string& where) {
  const auto refuse = [&](const std::string& what, const std::string& limits,
                          const std::string& hint) {
    throw InvalidArgument(what + (limits.empty() ? "" : ": " + limits), where, hint);
  };
  const auto size = static_cast<std::size_t>(memory.bytes);
  const int access = memory.is_data ? PROT_READ | PROT_WRITE : PROT_READ;
  void* const tried =
      size == 0 ? nullptr : mmap(nullptr, size, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (tried == MAP_FAILED) {
    refuse(fmt::format("there is no room for {:.3g} GB of memory, {}",
                       1e-9 * static_cast<double>(size), memory.purpose),
           limits_text(), memory.hint);
  }
  std::string failure;
  try {
    try_threads(threads);
  } catch (const std::exception& error) {
    failure = first_line(error);
  }
  if (tried != nullptr) munmap(tried, size);
  if (failure.empty()) return;
  refuse(
      fmt::format("cannot start {} more thread{}: {}", threads, threads == 1 ? "" : "s", failure),
      limits_text(), "ulimit -u and the control group's pids.max also limit threads");
}

bool is_out_of_memory(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
         dynamic_cast<const std::length_error*>(&error) != nullptr;
}

std::string out_of_memory_text() {
  const std::string limits = limits_text();
  return fmt::format("out of memory in the phase {}{}", phase_name(failed_phase()),
                     limits.empty() ? "" : ": " + limits);
}

std::string out_of_memory_report() {
  return out_of_memory_text() + "; hint: hanse plan tells what a job takes";
}

int64_t available_memory(const std::filesystem::path& root) {
  int64_t lowest = std::min(bytes_stated(root / "proc/meminfo", "MemAvailable").value_or(kNoLimit),
                            group_limit(root));
  for (const ProcessLimit& limit : kProcessLimits) {
    lowest = std::min(lowest, bytes_left(limit, root));
  }
  return lowest;
}

std::string memory_text(double bytes) {
  for (const auto& [unit, name] : {std::pair{1e18, "EB"}, {1e15, "PB"}, {1e12, "TB"}}) {
    if (bytes >= unit) return fmt::format("{:.1f} {}", bytes / unit, name);
  }
  return fmt::format("{:.1f} GB", 1e-9 * bytes);
}

void require_planned_memory(double bytes, const std::string& what, const std::string& where,
                            const std::string& hint) {
  if (bytes < static_cast<double>(kFewBytes)) return;
  const auto available = static_cast<double>(available_memory());
  if (bytes <= available) return;
  throw InvalidArgument(fmt::format("{} {} of memory, and there are {}", what, memory_text(bytes),
                                    memory_text(available)),
                        where, hint);
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
