#include "file_signature.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include <fmt/format.h>

#include "hanse/base/error.hpp"

namespace hanse {

namespace {

using namespace std::string_view_literals;

constexpr std::size_t kHeadBytes = 4096, kZipTailBytes = 65536;

struct FileFormat {
  std::string name;  // "an Excel workbook"
  std::string hint;  // {0}: the wanted format, {1}: the path
};

constexpr const char* kSave = "save it as {0} in UTF-8";
constexpr const char* kUnpack = "unpack it, and name the file that is in it";
constexpr const char* kPage = "fetch the file itself: this may be a login, an error or a preview";

struct Signature {
  std::size_t at;
  std::string_view bytes;
  const char* name;
  const char* hint;
};

constexpr std::array<Signature, 31> kSignatures = {{
    {0, "\x1F\x8B"sv, "a gzip file in a gzip file", kUnpack},
    {0,
     "\xFD"
     "7zXZ\0"sv,
     "an xz file", kUnpack},
    {0, "BZh"sv, "a bzip2 file", kUnpack},
    {0, "\x28\xB5\x2F\xFD"sv, "a zstd file", kUnpack},
    {0, "\x04\x22\x4D\x18"sv, "an lz4 file", kUnpack},
    {0, "7z\xBC\xAF\x27\x1C"sv, "a 7z archive", kUnpack},
    {0, "Rar!\x1A\x07"sv, "a rar archive", kUnpack},
    {257, "ustar"sv, "a tar archive", kUnpack},
    {0, "\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1"sv, "an old Excel workbook", kSave},
    {0, "PAR1"sv, "a Parquet file",
     "write it as {0}: pandas.read_parquet(\"{1}\").to_csv(\"data.csv\", index=False)"},
    {0, "ARROW1"sv, "a Feather file",
     "write it as {0}: pandas.read_feather(\"{1}\").to_csv(\"data.csv\", index=False)"},
    {0, "FEA1"sv, "a Feather file", kSave},
    {0, "ORC"sv, "an ORC file", kSave},
    {0, "Obj\x01"sv, "an Avro file", kSave},
    {0, "\x89HDF\r\n\x1A\n"sv, "an HDF5 file",
     "data.kind = hanse and tff read HDF5; write other files as {0}"},
    {0, "\x93NUMPY"sv, "a NumPy array", "data.kind = npz reads arrays: numpy.savez"},
    {0, "SQLite format 3\0"sv, "an SQLite database", "write its table as {0} in UTF-8"},
    {0, "MATLAB 5.0 MAT-file"sv, "a MATLAB file", kSave},
    {0, "$FL2"sv, "an SPSS file", kSave},
    {0, "<stata_dta>"sv, "a Stata file", kSave},
    {0, "RDX2"sv, "an R workspace", kSave},
    {0, "RDX3"sv, "an R workspace", kSave},
    {0, "X\n\0\0\0"sv, "an R object", kSave},
    {0, "\x80\x02"sv, "a Python pickle", kSave},
    {0, "\x80\x03"sv, "a Python pickle", kSave},
    {0, "\x80\x04"sv, "a Python pickle", kSave},
    {0, "\x80\x05"sv, "a Python pickle", kSave},
    {0, "%PDF-"sv, "a PDF document", kSave},
    {0, "{\\rtf"sv, "a Rich Text document", kSave},
    {0, "\x89PNG\r\n"sv, "a PNG picture", "data.kind = images reads pictures"},
    {0, "\xFF\xD8\xFF"sv, "a JPEG picture", "data.kind = images reads pictures"},
}};

// A table may begin with the letters of a signature, "PAR1,PAR2,label", but has no control bytes.
bool matches(std::string_view head, const Signature& signature) {
  if (head.size() < signature.at || !head.substr(signature.at).starts_with(signature.bytes)) {
    return false;
  }
  const auto is_letter = [](unsigned char c) { return std::isalnum(c) || c == '$'; };
  const auto is_control = [](unsigned char c) { return c < '\t'; };
  return !std::ranges::all_of(signature.bytes, is_letter) || std::ranges::any_of(head, is_control);
}

std::optional<FileFormat> zip_format(std::string_view bytes) {
  if (!bytes.starts_with("PK\x03\x04") && !bytes.starts_with("PK\x05\x06")) return std::nullopt;
  const std::size_t tail = bytes.size() - std::min(bytes.size(), kZipTailBytes);
  const auto has = [&](std::string_view part) {
    return bytes.substr(0, kHeadBytes).find(part) != bytes.npos ||
           bytes.substr(tail).find(part) != bytes.npos;
  };
  if (has("xl/workbook")) return FileFormat{"an Excel workbook", kSave};
  if (has("opendocument.spreadsheet")) return FileFormat{"an OpenDocument table", kSave};
  if (has("word/document")) return FileFormat{"a Word document", kSave};
  if (has(".npy")) return FileFormat{"a file of NumPy arrays", "data.kind = npz reads it"};
  return FileFormat{"a zip archive", kUnpack};
}

// Are most bytes at even or odd places in `head` 0, as in Western texts in UTF-16?
bool mostly_zero(std::string_view head, std::size_t first) {
  std::size_t zeros = 0, all = 0;
  for (std::size_t i = first; i < head.size(); i += 2, ++all) zeros += head[i] == '\0' ? 1 : 0;
  return 2 * zeros > all;
}

std::optional<FileFormat> wide_format(std::string_view head) {
  const auto of = [](const char* name, const char* code) {
    return FileFormat{fmt::format("a text in {}", name),
                      fmt::format("save it in UTF-8, or: iconv -f {} -t UTF-8 {{1}}", code)};
  };
  if (head.starts_with("\xFF\xFE\0\0"sv)) return of("UTF-32", "UTF-32");
  if (head.starts_with("\0\0\xFE\xFF"sv)) return of("UTF-32", "UTF-32");
  if (head.starts_with("\xFF\xFE"sv)) return of("UTF-16", "UTF-16");
  if (head.starts_with("\xFE\xFF"sv)) return of("UTF-16", "UTF-16");
  const bool low = head.size() > 3 && mostly_zero(head, 1), high = mostly_zero(head, 0);
  if (low && !high) return of("UTF-16", "UTF-16LE");
  if (head.size() > 3 && high && !low) return of("UTF-16", "UTF-16BE");
  return std::nullopt;
}

std::optional<FileFormat> page_format(std::string_view head) {
  std::string start(head.substr(0, 512));
  std::ranges::transform(start, start.begin(), [](unsigned char c) { return std::tolower(c); });
  start.erase(0, start.find_first_not_of(" \t\r\n\xEF\xBB\xBF"));
  if (start.starts_with("<!doctype html") || start.starts_with("<html")) {
    return FileFormat{"a web page", kPage};
  }
  if (start.starts_with("<?xml")) return FileFormat{"an XML document", kSave};
  if (start.starts_with("version https://git-lfs")) {
    return FileFormat{"a pointer of Git LFS", "fetch the file itself: git lfs pull"};
  }
  return std::nullopt;
}

std::optional<FileFormat> format_of(std::string_view bytes) {
  const std::string_view head = bytes.substr(0, kHeadBytes);
  for (const Signature& signature : kSignatures) {
    if (matches(head, signature)) return FileFormat{signature.name, signature.hint};
  }
  if (auto format = zip_format(bytes)) return format;
  if (auto format = page_format(head)) return format;
  if (auto format = wide_format(head)) return format;
  if (head.find('\0') != head.npos) return FileFormat{"no text: it has NUL bytes", kSave};
  return std::nullopt;
}

}  // namespace

void require_text(std::string_view bytes, const std::string& path, const std::string& wanted) {
  const auto format = format_of(bytes);
  if (!format) return;
  throw InvalidArgument(fmt::format("the file is {}", format->name), path,
                        fmt::format(fmt::runtime(format->hint), wanted, path));
}

}  // namespace hanse
