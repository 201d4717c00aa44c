#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/base/text.hpp"

namespace hanse {
namespace {

using namespace std::string_literals;

// The boundaries of every row of table 3-7 of the Unicode standard.
TEST(Utf8, IsWhatTheStandardSays) {
  for (const auto* good :
       {"", "a", "\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xEC\xBF\xBF", "\xED\x9F\xBF",
        "\xEE\x80\x80", "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF", "Z\xC3\xBCrich"}) {
    EXPECT_TRUE(is_utf8(good)) << printable(good);
  }
  for (const auto* bad : {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC2", "\xC2z", "\xE0\x9F\xBF",
                          "\xED\xA0\x80", "\xE2\x82", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80",
                          "\xF5\x80\x80\x80", "\xFF", "Z\xFCrich"}) {
    EXPECT_FALSE(is_utf8(bad)) << printable(bad);
  }
}

TEST(ShellWord, IsOneWordAsTyped) {
  EXPECT_EQ(shell_word("runs/first-1"), "runs/first-1");
  EXPECT_EQ(shell_word("runs/two words"), "'runs/two words'");
  EXPECT_EQ(shell_word("a$b;c"), "'a$b;c'");
  EXPECT_EQ(shell_word("it's"), R"('it'\''s')");
  EXPECT_EQ(shell_word(""), "''");
}

TEST(Printable, ShowsEveryByteOnOneLine) {
  EXPECT_EQ(printable("Z\xC3\xBCrich, 5 \xE2\x82\xAC"), "Z\xC3\xBCrich, 5 \xE2\x82\xAC");
  EXPECT_EQ(printable("Z\xFCrich"), "Z\\xFCrich");
  EXPECT_EQ(printable("PK\x03\x04"), "PK\\x03\\x04");
  EXPECT_EQ(printable("a\0b"s), "a\\x00b");
  EXPECT_EQ(printable("\x1B[2Jred\x7F"), "\\x1B[2Jred\\x7F");
  EXPECT_EQ(printable("a\nb\r\tc"), "a b  c");
  EXPECT_EQ(printable("\xE2\x82"), "\\xE2\\x82");
}

// A message that ended at a NUL byte hid where it came from.
TEST(Printable, MessagesDoNotEndAtANulByte) {
  EXPECT_STREQ(InvalidArgument("'a\0b' is not a number"s, "x.csv:2", "").what(),
               "'a\\x00b' is not a number (x.csv:2)");
}

}  // namespace
}  // namespace hanse
