#include "hanse/base/zip_directory.hpp"

#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/mapped_file.hpp"

namespace hanse {

namespace {

constexpr uint64_t kEndBytes = 22, kLargeEndBytes = 56, kLocatorBytes = 20, kEntryBytes = 46,
                   kHeaderBytes = 30;
constexpr uint64_t kLongestComment = UINT16_MAX;
constexpr uint64_t kMostPacked = 1032;  // bytes that deflate makes of one

// The bytes of a zip file; its numbers have the lowest byte first.
class Archive {
 public:
  Archive(std::string_view bytes, const ZipSource& source) : bytes_(bytes), source_(source) {}

  std::vector<ZipMember> read() {
    find_directory();
    uint64_t packed = 0;
    std::vector<ZipMember> entries;
    for (uint64_t i = 0, at = directory_; i < entries_; ++i) {
      const ZipMember entry = read_entry(at);
      packed += entry.packed;
      if (entry.begin > directory_ || entry.packed > directory_ || packed > directory_ ||
          entry.unpacked > kMostPacked * entry.packed) {
        refuse(fmt::format("its directory promises {} bytes, packed as {}, of entry {}",
                           entry.unpacked, entry.packed, i));
      }
      entries.push_back(entry);
    }
    return entries;
  }

  std::string_view packed(const ZipMember& entry) const {
    if (!stands("PK\3\4", entry.begin)) refuse(fmt::format("{} is damaged", entry.name));
    const uint64_t begin = entry.begin + kHeaderBytes + number<uint16_t>(entry.begin + 26) +
                           number<uint16_t>(entry.begin + 28);
    if (begin > bytes_.size() || entry.packed > bytes_.size() - begin) {
      refuse(fmt::format("it ends within {}", entry.name));
    }
    return bytes_.substr(begin, entry.packed);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw InvalidArgument(fmt::format("no {}: {}", source_.format, what), source_.path,
                          source_.hint);
  }

  template <class T>
  uint64_t number(uint64_t at) const {
    T value;
    if (at > bytes_.size() || bytes_.size() - at < sizeof value) refuse("it ends too early");
    std::memcpy(&value, bytes_.data() + at, sizeof value);
    return value;
  }

  bool stands(std::string_view mark, uint64_t at) const {
    return at <= bytes_.size() && bytes_.substr(at).starts_with(mark);
  }

  // A large archive states the directory's place in 64 bits, before the end.
  void find_directory() {
    const uint64_t end = bytes_.rfind("PK\5\6");
    if (end == std::string_view::npos || bytes_.size() - end > kEndBytes + kLongestComment) {
      refuse("it is no zip file, or cut off");
    }
    entries_ = number<uint16_t>(end + 10);
    uint64_t bytes = number<uint32_t>(end + 12);
    directory_ = number<uint32_t>(end + 16);
    if (end >= kLocatorBytes && stands("PK\6\7", end - kLocatorBytes)) {
      const auto large = number<uint64_t>(end - kLocatorBytes + 8);
      if (!stands("PK\6\6", large)) refuse("it has no directory of a large archive");
      entries_ = number<uint64_t>(large + 32);
      bytes = number<uint64_t>(large + 40);
      directory_ = number<uint64_t>(large + 48);
    }
    if (directory_ > end || bytes > end - directory_ || entries_ > bytes / kEntryBytes) {
      refuse(fmt::format("it promises a directory of {} entries at byte {}, {} bytes long",
                         entries_, directory_, bytes));
    }
  }

  // Moves `at` behind the entry.
  ZipMember read_entry(uint64_t& at) const {
    if (!stands("PK\1\2", at)) refuse("its directory is damaged");
    const auto name = number<uint16_t>(at + 28), extra = number<uint16_t>(at + 30);
    const uint64_t behind = at + kEntryBytes + name;
    if (behind > bytes_.size()) refuse("it ends too early");
    ZipMember entry{.name = bytes_.substr(at + kEntryBytes, name),
                    .method = number<uint16_t>(at + 10),
                    .packed = number<uint32_t>(at + 20),
                    .unpacked = number<uint32_t>(at + 24),
                    .begin = number<uint32_t>(at + 42),
                    .checksum = number<uint32_t>(at + 16)};
    read_large(behind, behind + extra, entry);
    at = behind + extra + number<uint16_t>(at + 32);
    return entry;
  }

  // Numbers that do not fit in 32 bits stand among the extra fields, one after another.
  void read_large(uint64_t at, uint64_t end, ZipMember& entry) const {
    while (at + 4 <= end && number<uint16_t>(at) != 1) at += 4 + number<uint16_t>(at + 2);
    at += 4;
    for (uint64_t* size : {&entry.unpacked, &entry.packed, &entry.begin}) {
      if (*size != UINT32_MAX) continue;
      if (at + 8 > end) refuse("a size of an entry is missing");
      *size = number<uint64_t>(at);
      at += 8;
    }
  }

  std::string_view bytes_;
  const ZipSource& source_;
  uint64_t entries_ = 0, directory_ = 0;  // number, and place of the first
};

}  // namespace

std::vector<ZipMember> zip_directory(std::string_view bytes, const ZipSource& source) {
  return Archive(bytes, source).read();
}

std::string_view packed_bytes(std::string_view bytes, const ZipMember& entry,
                              const ZipSource& source) {
  return Archive(bytes, source).packed(entry);
}

void check_archive(const ZipSource& source) {
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(source.path));
  if (bytes == 0) throw InvalidArgument("the file is empty", source.path, source.hint);
  const auto memory = map_file(source.path, bytes, Access::kRead);
  const std::string_view view(reinterpret_cast<const char*>(memory.get()), to_index(bytes));
  uint64_t unpacked = 0;
  for (const ZipMember& entry : zip_directory(view, source)) unpacked += entry.unpacked;
  require_memory(static_cast<int64_t>(unpacked), "what its directory promises takes", source.path,
                 source.hint);
}

}  // namespace hanse
