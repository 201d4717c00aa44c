// A file that appears under its name complete and on the disk, or not at all.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>

namespace hanse {

// Who may read a file: those whom the process's mask allows, or its owner alone.
enum class Readers { kAll, kOwner };

// A file descriptor that closes itself; every failure is an IoError with the path.
class Descriptor {
 public:
  Descriptor(const std::string& path, int flags, Readers readers = Readers::kAll);
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int64_t size() const;
  // Reserves blocks on the disk for the first `bytes` bytes and makes the file at least that long.
  // Keeps its contents. Returns false if the file system cannot promise blocks.
  bool reserve(int64_t bytes);
  void write_at(int64_t offset, const std::string& bytes);
  void sync();

 private:
  std::string path_;
  int descriptor_;
};

// This host's, by which processes of several hosts tell their files apart; at most 255 bytes.
std::string host_name();

// A name beside `path` that no other process has: PATH.HOST-PROCESS.tmp. What a killed process of
// this host has left of such names is removed first.
std::string temporary_beside(const std::string& path);

// The temporary file under construction; removed in the destructor unless it was published.
class TemporaryFile {
 public:
  // Creates it. Throws IoError if it is there: it would be another's.
  explicit TemporaryFile(const std::string& path, Readers readers = Readers::kAll);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }

  // Throws IoError when the disk has no room for `bytes`. Takes nothing: the file is empty again.
  // (If the file system cannot promise blocks, its free space decides; a quota shows later, in the
  // writes.)
  void require_room(int64_t bytes);
  // Flushes the contents, renames it to `name` in the same folder and flushes the folder.
  void publish(const std::string& name);
  // Likewise, unless there is a file `name`: false, and that file stays as it is. Of several
  // processes that publish one name, one succeeds.
  bool publish_new(const std::string& name);

 private:
  std::string path_;
  bool published_ = false;
};

// Replaces the file by one with this text.
void write_file(const std::string& path, const std::string& text);
// The same of a text in pieces, `next()` after `next()` until one is empty.
void write_file(const std::string& path, const std::function<std::string()>& next);
// The same of a head and lines_of(i) of each i below `count`, none of them empty, which never stand
// in memory together.
void write_lines(const std::string& path, std::string head, std::size_t count,
                 const std::function<std::string(std::size_t i)>& lines_of);

// Flushes this host's buffers of the file to the disk.
void sync_file(const std::string& path);

// A file that grows. Every failure is an IoError with the path.
class GrowingFile {
 public:
  // `mode` as fopen's.
  GrowingFile(const std::string& path, const char* mode);

  void append(const std::string& bytes);
  // Writes over the last bytes of the file.
  void append_over(std::size_t last_bytes, const std::string& bytes);
  // Writes the buffer to the file.
  void flush();
  // Flushes, then brings the file to the disk, so that it outlives the machine's end.
  void sync();
  bool empty() const;  // nothing was ever written

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  [[noreturn]] void fail() const;

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace hanse
