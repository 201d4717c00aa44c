// The types of the values in NumPy's arrays.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hanse {

// A reader's use of an array: it decides the hint about an array that is not read.
enum class ArrayUse { kNumbers, kIntegers, kNames };

struct NpyType {
  // 'u' and 'i': integers, 'f': floating-point numbers, 'b': truth values; 'U' and 'S': texts.
  char kind = 0;
  int64_t bytes = 0;        // of a value
  bool is_swapped = false;  // the highest byte of a number, or of a character, stands first

  bool is_text() const { return kind == 'U' || kind == 'S'; }
  // The bytes whose order is_swapped tells.
  int64_t unit_bytes() const { return kind == 'U' ? 4 : kind == 'S' ? 1 : bytes; }
};

// Reads the text behind 'descr': in the header of the array `name`, "'<f4'" for example. Throws
// InvalidArgument, with `where`, for a type that is not read; its hint is a line of Python that
// makes a readable array of the same name.
NpyType npy_type(std::string_view descr, const std::string& name, ArrayUse use,
                 const std::string& where);

}  // namespace hanse
