#include "input_file.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <zlib.h>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/mapped_file.hpp"

namespace hanse {

namespace {

constexpr int64_t kLeastBufferBytes = 1 << 13, kBufferBytes = 1 << 20;
constexpr int64_t kMostBytesACall = int64_t{1} << 30;  // gzread counts in int
constexpr int64_t kDeflateRatio = 1032;                // deflate never packs more into a byte

InvalidArgument damaged(const std::string& path, const std::string& field, std::string reason) {
  if (reason.starts_with(path)) reason.erase(0, path.size() + 2);  // zlib's "PATH: REASON"
  return InvalidArgument(fmt::format("damaged file: {}", reason),
                         fmt::format("{}, field '{}'", path, field),
                         "the file is incomplete or corrupt; fetch it again");
}

std::pmr::string read_all(InputFile& file) {
  std::pmr::string text;
  for (;;) {
    const std::size_t size = text.size();
    require_memory(2 * static_cast<int64_t>(size), "unpacked it takes more than", file.path(),
                   "unpack it, then it is mapped");
    text.resize(size + std::max<std::size_t>(size, kBufferBytes));
    const auto room = static_cast<int64_t>(text.size() - size);
    const int64_t got = file.read("text", text.data() + size, room);
    if (got < room) {
      text.resize(size + static_cast<std::size_t>(got));
      return text;
    }
  }
}

}  // namespace

InputFile::InputFile(const std::string& path) : path_(path) {
  std::error_code code;
  if (std::filesystem::is_directory(path, code)) {
    throw InvalidArgument("expected a file, found a folder", path, "check data.path and data.kind");
  }
  file_ = gzopen(path.c_str(), "rb");
  if (!file_) {
    throw InvalidArgument("cannot open file: " + errno_text(), path, "check data.path");
  }
  const auto size = std::filesystem::file_size(path, code);
  file_bytes_ = code ? 0 : static_cast<int64_t>(size);
  gzbuffer(file_, static_cast<unsigned>(
                      std::clamp<int64_t>(file_bytes_, kLeastBufferBytes, kBufferBytes)));
}

InputFile::~InputFile() { gzclose_r(file_); }

bool InputFile::is_plain() const { return gzdirect(file_) != 0; }

int64_t InputFile::most_bytes() const {
  return is_plain() ? file_bytes_ : file_bytes_ * kDeflateRatio;
}

int64_t InputFile::read(const std::string& field, void* out, int64_t bytes) {
  int64_t done = 0;
  while (done < bytes) {
    const auto wanted = static_cast<unsigned>(std::min(bytes - done, kMostBytesACall));
    const int got = gzread(file_, static_cast<char*>(out) + done, wanted);
    if (got <= 0) break;
    done += got;
  }
  if (done < bytes) {  // the end of the file, or of its readable part
    int code = Z_OK;
    const char* text = gzerror(file_, &code);
    if (code == Z_ERRNO) throw damaged(path_, field, errno_text());
    if (code == Z_BUF_ERROR) throw damaged(path_, field, "compressed data end too early");
    if (code != Z_OK && code != Z_STREAM_END) throw damaged(path_, field, text);
  }
  return done;
}

InputText::InputText(const std::string& path) {
  InputFile file(path);
  const int64_t bytes = file.is_plain() ? file.most_bytes() : 0;
  if (bytes > 0) {
    mapped_ = map_file(path, bytes, Access::kRead);
    view_ = {reinterpret_cast<const char*>(mapped_.get()), static_cast<std::size_t>(bytes)};
  } else {
    unpacked_ = read_all(file);
    view_ = unpacked_;
  }
}

}  // namespace hanse
