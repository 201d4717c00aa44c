// Text from outside (files, arguments, names) on its way into messages and files.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hanse {

// Is it valid UTF-8? Overlong forms, surrogates and code points above U+10FFFF are not. Cost: one
// pass over the bytes.
bool is_utf8(std::string_view text);

// The text as one line for a terminal or a log: ends of lines and tabs as spaces, other control
// bytes and bytes that are not UTF-8 as "\x1B", everything else as it is.
std::string printable(std::string_view text);

// The text as one field of a CSV file: in quotes where it needs them.
std::string csv_field(std::string_view text);

// The text as one word of a shell's command line: in quotes where it needs them.
std::string shell_word(std::string_view text);

// The number that a text is, as options have it; nothing when it is none, or NaN.
std::optional<double> number_in(std::string_view text);

}  // namespace hanse
