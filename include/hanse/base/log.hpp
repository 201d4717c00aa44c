// Messages for the person who runs the program, on stderr. One rank speaks.
#pragma once

#include <string>

namespace hanse {

// Ranks other than the speaker keep notices and warnings to themselves. Default: speaks.
void set_speaker(bool speaks);

void notice(const std::string& text);   // "hanse: TEXT"
void warning(const std::string& text);  // "hanse: warning: TEXT"

// "hanse: error: TEXT", from any rank.
void report_error(const std::string& text);

}  // namespace hanse
