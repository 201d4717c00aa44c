#include "hanse/store/run_lock.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hanse/base/clock.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/log.hpp"
#include "hanse/store/atomic_file.hpp"

namespace hanse {

namespace fs = std::filesystem;

namespace {

constexpr auto kPause = std::chrono::milliseconds(50);  // from one try to the next
constexpr double kSecondsToEnd = 1;                     // for the other ranks of a refused run

std::string lock_file(const std::string& folder) { return folder + "/" + RunLock::kFile; }

[[noreturn]] void cannot_write(const std::string& folder, const std::string& why) {
  throw InvalidArgument("cannot write to the output directory: " + why, folder,
                        "choose another run.out");
}

// Returns the folders that were missing, the innermost first.
std::vector<std::string> make_folders(const std::string& folder) {
  std::vector<std::string> made;
  std::error_code code;
  for (fs::path path = fs::absolute(folder); !fs::exists(path, code); path = path.parent_path()) {
    if (path.has_filename()) made.push_back(path);
  }
  fs::create_directories(folder, code);
  if (!code) return made;
  std::error_code ignored;
  for (const std::string& own : made) fs::remove(own, ignored);
  cannot_write(folder, code.message());
}

bool is_held(int code) { return code == EAGAIN || code == EACCES; }
bool may_pass(int code) { return is_held(code) || code == EINTR; }

// The owner's text about itself, which may not be written yet.
std::string owner_of(int file) {
  char text[512];
  const ssize_t length = pread(file, text, sizeof text, 0);
  return length > 0 ? std::string(text, static_cast<std::size_t>(length)) : "not known yet";
}

// Is there nothing but the lock?
bool wrote_nothing(const std::string& folder) {
  std::error_code code;
  const fs::directory_iterator entries(folder, code);
  return !code && std::all_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
    return entry.path().filename() == RunLock::kFile;
  });
}

// What an owner writes of itself begins so.
std::string process_text(const std::string& host) { return fmt::format("host {}, process ", host); }

void write_owner(int file) {
  const std::string owner =
      fmt::format("{}{}, since {:%Y-%m-%d %H:%M:%S}", process_text(host_name()), getpid(),
                  fmt::localtime(std::time(nullptr)));
  // The text serves messages alone: a full disk does not keep a run from starting.
  if (ftruncate(file, 0) != 0 || pwrite(file, owner.data(), owner.size(), 0) < 0) return;
}

}  // namespace

RunLock::RunLock(const std::string& folder, int flags)
    : folder_(folder), file_(open(lock_file(folder).c_str(), O_RDWR | O_CLOEXEC | flags, 0644)) {}

// The last process removes the file; take() notices a file that has lost its name.
RunLock::~RunLock() {
  if (file_ < 0) return;
  std::error_code ignored;
  if (!made_.empty() && wrote_nothing(folder_)) {
    if (lock_within(kSecondsToEnd)) fs::remove(lock_file(folder_), ignored);
    for (const std::string& folder : made_) fs::remove(folder, ignored);
  } else {
    try_lock(F_UNLCK);
    if (try_lock(F_WRLCK) && has_name()) fs::remove(lock_file(folder_), ignored);
  }
  close(file_);
}

RunLock& RunLock::operator=(RunLock&& other) noexcept {
  std::swap(folder_, other.folder_);
  std::swap(made_, other.made_);
  std::swap(file_, other.file_);
  return *this;
}

// Locks the open file, not the process: closing another descriptor of the file does not lose the
// lock. Other hosts see it if the file system passes locks on, as NFS does. An exclusive lock
// becomes a shared one without a gap. False: errno says why.
bool RunLock::try_lock(short kind) const {
  struct flock whole = {};
  whole.l_type = kind;
  whole.l_whence = SEEK_SET;
  return fcntl(file_, F_OFD_SETLK, &whole) == 0;
}

// Takes the exclusive lock. False: errno says why.
bool RunLock::lock_within(double seconds) const {
  const double end_s = monotonic_seconds() + seconds;
  while (!try_lock(F_WRLCK)) {
    if (!may_pass(errno) || monotonic_seconds() >= end_s) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

// Is the open file still the one of the folder?
bool RunLock::has_name() const {
  struct stat own = {}, named = {};
  return fstat(file_, &own) == 0 && stat(lock_file(folder_).c_str(), &named) == 0 &&
         own.st_ino == named.st_ino && own.st_dev == named.st_dev;
}

RunLock RunLock::take(const std::string& folder, double patience_s) {
  auto made = make_folders(folder);
  RunLock lock(folder, O_CREAT);
  if (lock.file_ < 0) cannot_write(folder, errno_text());
  if (!lock.lock_within(patience_s)) {
    const int code = errno;
    const std::string why = errno_text();
    const std::string owner = owner_of(lock.file_);
    close(std::exchange(lock.file_, -1));  // it is another run's, or nobody's
    if (is_held(code)) {
      throw InvalidArgument(fmt::format("another run writes this folder ({})", owner), folder,
                            "wait until it has ended, or choose another run.out");
    }
    // Whatever the file system answers (ENOLCK, ENOSYS, ENOTSUPP, EREMOTEIO, ...), the file is
    // open: the run can write, and no other holds a lock that this one can see.
    warning(fmt::format("the file system of {} gives no lock ({}): nothing keeps a second run out",
                        folder, why));
    return lock;
  }
  if (!lock.has_name()) return take(folder, patience_s);
  lock.made_ = std::move(made);
  write_owner(lock.file_);
  lock.try_lock(F_RDLCK);  // the other ranks share it
  return lock;
}

RunLock RunLock::join(const std::string& folder) {
  RunLock lock(folder, 0);
  lock.try_lock(F_RDLCK);
  return lock;
}

std::optional<bool> RunLock::is_taken(const std::string& folder) {
  const int file = open(lock_file(folder).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return errno == ENOENT ? std::optional(false) : std::nullopt;
  struct flock whole = {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  const bool says = fcntl(file, F_OFD_GETLK, &whole) == 0;
  const std::string owner = owner_of(file);
  close(file);
  if (says && whole.l_type != F_UNLCK) return true;
  const std::string here = process_text(host_name());
  if (!owner.starts_with(here)) return std::nullopt;
  if (says) return false;
  const pid_t process = std::atoi(owner.c_str() + here.size());
  return kill(process, 0) == 0 || errno == EPERM;
}

}  // namespace hanse
