// One run writes a folder at a time.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hanse {

// Every process of a run holds the lock of run.out, a file in it, for as long as it may write
// there. The system releases it when the process ends, however it ends; the last process that ends
// in order removes the file. If the file system cannot lock, the run goes on without a lock, with a
// warning.
class RunLock {
 public:
  static constexpr const char* kFile = "lock";

  RunLock() = default;  // holds nothing
  // Removes the folders that were made for a run that has written nothing.
  ~RunLock();
  RunLock(RunLock&& other) noexcept { *this = std::move(other); }
  RunLock& operator=(RunLock&& other) noexcept;

  // For rank 0: makes the folder if it is missing, and succeeds when no process of another run
  // holds its lock. Waits `patience_s` seconds for processes that are about to end. Throws
  // InvalidArgument: it is held, with the holder's host, process and time of start, or the folder
  // cannot be made or written.
  static RunLock take(const std::string& folder, double patience_s);
  // For the other ranks, when rank 0 has taken it: the lock lasts until the last of them has ended.
  // Holds nothing if the host does not see the folder, or the file system gives no lock.
  static RunLock join(const std::string& folder);

  // Does a process hold the folder's lock? Nothing: the file system does not say, or the lock is of
  // another host, from which it may not pass locks on.
  static std::optional<bool> is_taken(const std::string& folder);

 private:
  RunLock(const std::string& folder, int flags);
  bool try_lock(short kind) const;
  bool lock_within(double seconds) const;
  bool has_name() const;

  std::string folder_;
  std::vector<std::string> made_;  // folders, the innermost first
  int file_ = -1;
};

}  // namespace hanse
