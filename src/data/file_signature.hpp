// What a file is by its bytes, for the message where a text was expected and there is none.
#pragma once

#include <string>
#include <string_view>

namespace hanse {

// Throws InvalidArgument, with what the file is and what to do, when the bytes are no text in
// UTF-8: UTF-16, an archive, a workbook, a web page, an array or table of another format, bytes
// with NUL. `wanted` is what the reader takes: "CSV". Cost: a look at the first 4 KiB, and of a zip
// file at the last 64 KiB.
void require_text(std::string_view bytes, const std::string& path, const std::string& wanted);

}  // namespace hanse
