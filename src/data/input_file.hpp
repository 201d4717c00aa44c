// A plain or gzip file, read once from its start to its end.
#pragma once

#include <cstdint>
#include <memory>
#include <memory_resource>
#include <string>
#include <string_view>

struct gzFile_s;

namespace hanse {

class InputFile {
 public:
  // Throws InvalidArgument when the file cannot be opened or is a folder.
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }

  // Reads up to `bytes` bytes; fewer only at the end of the file. `field` names the data in
  // messages. Throws InvalidArgument when the file is damaged or cut.
  int64_t read(const std::string& field, void* out, int64_t bytes);

  // Not compressed: the bytes of the file are its contents.
  bool is_plain() const;

  // The most bytes that the rest of the file can hold, compressed or not; a header that asks for
  // more is wrong, and must not make us allocate them.
  int64_t most_bytes() const;

 private:
  std::string path_;
  int64_t file_bytes_ = 0;
  gzFile_s* file_ = nullptr;
};

// All bytes of a file: a plain one is mapped, a gzip one is unpacked in memory.
class InputText {
 public:
  // Throws InvalidArgument as InputFile does.
  explicit InputText(const std::string& path);
  InputText(const InputText&) = delete;
  InputText& operator=(const InputText&) = delete;
  std::string_view view() const { return view_; }

 private:
  std::pmr::string unpacked_;  // see ScratchMemory
  std::shared_ptr<const std::byte> mapped_;
  std::string_view view_;  // of either text; the object stays in place
};

}  // namespace hanse
