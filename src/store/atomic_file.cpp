#include "hanse/store/atomic_file.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "hanse/base/error.hpp"

namespace hanse {

namespace {

constexpr mode_t kMode = 0644, kOwnersMode = 0600;

[[noreturn]] void fail(const std::string& what, const std::string& path) {
  throw IoError(what + ": " + errno_text(), path);
}

[[noreturn]] void no_room(int64_t bytes, const std::string& path) {
  throw IoError(fmt::format("no room for {} bytes: {}", bytes, errno_text()), path,
                "make room on the disk");
}

std::string folder_of(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// Some file systems know no sync of a folder; then the rename is as durable as it can be.
void sync_folder(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail("cannot open the folder", folder);
  const int status = fsync(descriptor);
  const int code = errno;
  close(descriptor);
  errno = code;
  if (status != 0 && code != EINVAL && code != ENOTSUP) fail("cannot flush the folder", folder);
}

constexpr std::string_view kTemporary = ".tmp";

// Has the process ended whose number stands between `front` and the ending of the name? This
// process is not writing the file yet, so a file with its own number is of one before it.
bool is_left(std::string_view name, std::string_view front) {
  if (!name.starts_with(front) || !name.ends_with(kTemporary)) return false;
  name = name.substr(front.size(), name.size() - front.size() - kTemporary.size());
  pid_t process = 0;
  const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), process);
  if (code != std::errc() || end != name.data() + name.size() || process <= 0) return false;
  return process == getpid() || (kill(process, 0) != 0 && errno == ESRCH);
}

}  // namespace

std::string host_name() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return host;
}

std::string temporary_beside(const std::string& path) {
  const std::string front = fmt::format("{}.{}-", path, host_name());
  const std::string name = std::filesystem::path(front).filename().string();
  std::error_code code;
  for (std::filesystem::directory_iterator it(folder_of(path), code), end; !code && it != end;
       it.increment(code)) {
    const std::string own = it->path().filename().string();
    if (is_left(own, name)) unlink(it->path().c_str());
  }
  return fmt::format("{}{}{}", front, getpid(), kTemporary);
}

Descriptor::Descriptor(const std::string& path, int flags, Readers readers)
    : path_(path),
      descriptor_(
          open(path.c_str(), flags | O_CLOEXEC, readers == Readers::kOwner ? kOwnersMode : kMode)) {
  if (descriptor_ < 0) fail("cannot open the file", path_);
  // A file that was there has its own mode.
  if (readers == Readers::kOwner && fchmod(descriptor_, kOwnersMode) != 0) {
    fail("cannot keep others from reading the file", path_);
  }
}

Descriptor::~Descriptor() { close(descriptor_); }

int64_t Descriptor::size() const {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) fail("cannot read the file's size", path_);
  return status.st_size;
}

// posix_fallocate would write to every single block if the file system has no such call.
bool Descriptor::reserve(int64_t bytes) {
  int status = 0;
  do {
    status = fallocate(descriptor_, 0, 0, bytes);
  } while (status != 0 && errno == EINTR);
  if (status != 0 && errno != EOPNOTSUPP && errno != ENOSYS) no_room(bytes, path_);
  return status == 0;
}

void Descriptor::write_at(int64_t offset, const std::string& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t wrote = pwrite(descriptor_, bytes.data() + done, bytes.size() - done,
                                 offset + static_cast<int64_t>(done));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) fail("cannot write", path_);
    done += static_cast<std::size_t>(wrote);
  }
}

void Descriptor::sync() {
  if (fsync(descriptor_) != 0) fail("cannot flush the file to the disk", path_);
}

TemporaryFile::TemporaryFile(const std::string& path, Readers readers) : path_(path) {
  const Descriptor created(path, O_RDWR | O_CREAT | O_EXCL, readers);
}

TemporaryFile::~TemporaryFile() {
  if (!published_) unlink(path_.c_str());
}

void TemporaryFile::require_room(int64_t bytes) {
  Descriptor file(path_, O_RDWR);
  if (!file.reserve(bytes)) {
    struct statvfs disk {};
    if (statvfs(path_.c_str(), &disk) != 0) fail("cannot read the free space", path_);
    errno = ENOSPC;
    if (disk.f_bavail < static_cast<uint64_t>(bytes) / disk.f_frsize) no_room(bytes, path_);
  }
  if (truncate(path_.c_str(), 0) != 0) fail("cannot empty the file", path_);
}

void TemporaryFile::publish(const std::string& name) {
  sync_file(path_);
  if (std::rename(path_.c_str(), name.c_str()) != 0) fail("cannot rename it to " + name, path_);
  published_ = true;
  sync_folder(folder_of(name));
}

// A hard link never replaces a file. Where the file system has none, two that come at once may both
// see no file; each is whole all the same.
bool TemporaryFile::publish_new(const std::string& name) {
  sync_file(path_);
  if (link(path_.c_str(), name.c_str()) == 0) {
    sync_folder(folder_of(name));
    return true;
  }
  if (errno == EEXIST || std::filesystem::exists(name)) return false;
  publish(name);
  return true;
}

void write_file(const std::string& path, const std::string& text) {
  TemporaryFile file(temporary_beside(path));
  Descriptor(file.path(), O_WRONLY).write_at(0, text);
  file.publish(path);
}

void write_file(const std::string& path, const std::function<std::string()>& next) {
  TemporaryFile file(path + ".tmp");
  Descriptor written(file.path(), O_WRONLY);
  int64_t offset = 0;
  for (std::string piece = next(); !piece.empty(); piece = next()) {
    written.write_at(offset, piece);
    offset += std::ssize(piece);
  }
  file.publish(path);
}

void write_lines(const std::string& path, std::string head, std::size_t count,
                 const std::function<std::string(std::size_t i)>& lines_of) {
  constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
  std::size_t at = 0;
  write_file(path, [&] {
    std::string piece = std::exchange(head, {});
    while (at < count && piece.size() < kPieceBytes) piece += lines_of(at++);
    return piece;
  });
}

void sync_file(const std::string& path) { Descriptor(path, O_RDWR).sync(); }

// Lines of a thousand participants: a call of the system for each 4 KB took 2 % of a small round.
constexpr std::size_t kBufferBytes = std::size_t{1} << 16;

GrowingFile::GrowingFile(const std::string& path, const char* mode)
    : path_(path), file_(std::fopen(path.c_str(), mode)) {
  if (!file_) hanse::fail("cannot write", path);
  std::setvbuf(file_.get(), nullptr, _IOFBF, kBufferBytes);
  std::fseek(file_.get(), 0, SEEK_END);
}

void GrowingFile::append(const std::string& bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) fail();
}

void GrowingFile::append_over(std::size_t last_bytes, const std::string& bytes) {
  if (std::fseek(file_.get(), -static_cast<long>(last_bytes), SEEK_END) != 0) fail();
  append(bytes);
}

void GrowingFile::flush() {
  if (std::fflush(file_.get()) != 0 || std::ferror(file_.get())) fail();
}

void GrowingFile::sync() {
  flush();
  sync_file(path_);
}

bool GrowingFile::empty() const { return std::ftell(file_.get()) == 0; }

void GrowingFile::fail() const {
  throw IoError("cannot write: " + errno_text(), path_, "is the disk full?");
}

}  // namespace hanse
