// Recognizes a file by its bytes, for the message where a text was expected and there is none.
#pragma once

#include <string>
#include <string_view>

namespace hanse {

// Throws InvalidArgument, with the file's format and what to do, when the bytes are no text in
// UTF-8: UTF-16, an archive, a workbook, a web page, an array or table of another format, bytes
// with NUL. `wanted` is the reader's format: "CSV". Cost: a look at the first 4 KiB, and for a zip
// file at the last 64 KiB.
void require_text(std::string_view bytes, const std::string& path, const std::string& wanted);

}  // namespace hanse
