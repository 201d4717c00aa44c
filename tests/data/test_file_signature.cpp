#include <gtest/gtest.h>
#include <zlib.h>

#include "data/file_signature.hpp"
#include "hanse/data/dataset.hpp"
#include "support.hpp"

namespace hanse {
namespace {

using namespace std::string_literals;

void expect_refused(const std::string& bytes, const std::string& what, const std::string& hint) {
  expect_invalid([&] { require_text(bytes, "table.csv", "CSV"); }, {what, "table.csv", hint});
}

std::string in_utf16(const std::string& text, bool high_first) {
  std::string wide;
  for (const char c : text) wide += high_first ? "\0"s + c : c + "\0"s;
  return wide;
}

TEST(FileSignature, KnowsTextsInOtherEncodings) {
  const std::string table = "a,b,label\n1,2,0\n3,4,1\n";
  for (const std::string& bytes :
       {"\xFF\xFE" + in_utf16(table, false), "\xFE\xFF" + in_utf16(table, true),
        in_utf16(table, false), in_utf16(table, true)}) {
    expect_refused(bytes, "is a text in UTF-16", "-t UTF-8 table.csv");
  }
  expect_refused("\xFF\xFE\0\0a\0\0\0"s, "UTF-32", "iconv -f UTF-32 -t UTF-8");
  expect_refused("a,b\n1,\0\n"s, "NUL", "save it as CSV in UTF-8");
}

TEST(FileSignature, KnowsWorkbooksAndArchives) {
  const std::string zip = "PK\x03\x04\x14\0\x06\0"s, rest(100, '\x01');
  expect_refused(zip + rest, "is a zip archive", "unpack it");
  expect_refused(zip + "[Content_Types].xml" + rest + "xl/workbook.xml", "an Excel workbook",
                 "save it as CSV in UTF-8");
  expect_refused(zip + "mimetypeapplication/vnd.oasis.opendocument.spreadsheet", "OpenDocument",
                 "as CSV");
  expect_refused(zip + rest + "x.npy", "NumPy arrays", "data.kind = npz");
  expect_refused("\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1"s + rest, "an old Excel workbook", "as CSV");
  expect_refused("\xFD"s + "7zXZ\0\0"s, "an xz file", "unpack it");
  expect_refused("BZh91AY&SY\x01"s, "a bzip2 file", "unpack it");
  expect_refused("\x28\xB5\x2F\xFD\x04"s, "a zstd file", "unpack it");
  expect_refused("a.csv"s + std::string(252, '\0') + "ustar\0"s, "a tar archive", "unpack it");
  expect_refused("\x1F\x8B\x08\0"s, "a gzip file in a gzip file", "unpack it");
}

TEST(FileSignature, KnowsOtherFormats) {
  expect_refused("PAR1\x15\x04", "a Parquet file", "pandas.read_parquet(\"table.csv\")");
  expect_refused("ARROW1\0\0"s, "a Feather file", "pandas.read_feather");
  expect_refused("\x89HDF\r\n\x1A\n"s, "an HDF5 file", "hanse and tff");
  expect_refused("\x93NUMPY\x01"s, "a NumPy array", "npz");
  expect_refused("SQLite format 3\0"s, "an SQLite database", "CSV");
  expect_refused("\x80\x04\x95"s, "a Python pickle", "CSV");
  expect_refused("%PDF-1.7\n", "a PDF document", "CSV");
  expect_refused("\n <!DOCTYPE HTML>\n<p>Log in", "a web page", "fetch the file itself");
  expect_refused("<html lang=en>", "a web page", "fetch");
  expect_refused("\xEF\xBB\xBF<?xml version=\"1.0\"?>", "an XML document", "CSV");
  expect_refused("version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS",
                 "git lfs pull");
  expect_refused("\x89PNG\r\n\x1A\n"s, "a PNG picture", "images");
}

TEST(FileSignature, TextsPass) {
  for (const std::string& text :
       {""s, "a"s, "\n"s, "PAR1,PAR2,label\n1,2,0\n"s, "ORC,label\n1,0\n"s, "BZh,label\n"s,
        "FEA1,FEA2\n"s, "PK,label\n"s, "Obj,label\n"s, "<x>,label\n"s,
        "\xEF\xBB\xBFgr\xC3\xB6\xC3\x9F"
        "e,label\n1,0\n"s}) {
    EXPECT_NO_THROW(require_text(text, "table.csv", "CSV")) << text;
  }
}

// Every reader of texts asks; a gzip file is unpacked, and what is in it is known.
TEST(FileSignature, ReadersOfTextsName) {
  const TempFolder folder;
  const std::string wide = "\xFF\xFE" + in_utf16("a,label\n1,0\n", false);
  const std::string path = folder.write("table.csv", wide);
  const DataOptions options{.kind = "csv", .path = path};
  expect_invalid([&] { read_csv(path, options); }, {"a text in UTF-16", path});
  const std::string packed = folder.file("table.tar.gz");
  const std::string tar = "a.csv"s + std::string(252, '\0') + "ustar\0"s;
  const gzFile file = gzopen(packed.c_str(), "wb");
  gzwrite(file, tar.data(), static_cast<unsigned>(tar.size()));
  gzclose(file);
  expect_invalid([&] { read_csv(packed, options); }, {"a tar archive", packed});
}

}  // namespace
}  // namespace hanse
