#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "hanse/base/digest.hpp"
#include "hanse/base/error.hpp"
#include "support/scratch_folder.hpp"

namespace hanse {
namespace {

std::string digest_of(const std::string& text) {
  return digest_hex(std::as_bytes(std::span(text.data(), text.size())));
}

TEST(Digest, KnownValues) {  // as printed by xxhsum -H2
  EXPECT_EQ(digest_of(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(digest_of("abc"), "06b05ab6733a618578af5f94892f3950");
}

TEST(Digest, AFileHasTheDigestOfItsBytesFromTheOffset) {
  const ScratchFolder folder;
  const std::string path = folder / "file";
  for (const int64_t bytes : {0, 1, 511, 4194304, 9000001}) {
    std::string text(static_cast<std::size_t>(bytes), '\0');
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31 + i / 256);
    std::ofstream(path, std::ios::binary) << text;
    EXPECT_EQ(file_digest_hex(path, 0), digest_of(text)) << bytes;
    if (bytes > 7) {
      EXPECT_EQ(file_digest_hex(path, 7), digest_of(text.substr(7))) << bytes;
    }
    EXPECT_EQ(file_digest_hex(path, bytes + 3), digest_of(""));
  }
}

TEST(Digest, AMissingFileIsNamed) {
  try {
    file_digest_hex("/nonexistent/file", 0);
    FAIL();
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find("/nonexistent/file"), std::string::npos);
  }
}

}  // namespace
}  // namespace hanse
