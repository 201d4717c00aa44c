// What the values of an array of NumPy's are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hanse {

// What a reader makes of an array: it decides what can be done about one that is not read.
enum class ArrayUse { kNumbers, kIntegers, kNames };

struct NpyType {
  // 'u' and 'i': integers, 'f': floating-point numbers, 'b': truth values; 'U' and 'S': texts.
  char kind = 0;
  int64_t bytes = 0;        // of a value
  bool is_swapped = false;  // the highest byte of a number, or of a character, stands first

  bool is_text() const { return kind == 'U' || kind == 'S'; }
  // That stand in the order of is_swapped.
  int64_t unit_bytes() const { return kind == 'U' ? 4 : kind == 'S' ? 1 : bytes; }
};

// Of what stands behind 'descr': in the header of the array `name`, "'<f4'" for example. Throws
// InvalidArgument, with `where`, for a type that is not read; its hint is a line of Python that
// makes an array of the same name that is.
NpyType npy_type(std::string_view descr, const std::string& name, ArrayUse use,
                 const std::string& where);

}  // namespace hanse
