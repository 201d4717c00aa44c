#include "npy_type.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "hanse/base/error.hpp"

namespace hanse {

namespace {

constexpr int64_t kLongestText = 1 << 16;  // characters

struct Answer {
  std::string what, hint;
};

// A hint at the type to which the array should be cast for its use.
std::string cast_hint(const std::string& name, ArrayUse use) {
  switch (use) {
    case ArrayUse::kNumbers: return fmt::format("save {}.astype('float32')", name);
    case ArrayUse::kIntegers: return fmt::format("save {}.astype('int64')", name);
    default:
      return fmt::format("save {0}.astype('str'), or of whole numbers {0}.astype('int64')", name);
  }
}

// A record's fields stand in its type as [('a', '<f4'), ...].
Answer records(std::string_view descr, const std::string& name, ArrayUse use) {
  const auto begin = std::min(descr.find('\''), descr.size());
  const auto end = std::min(descr.find('\'', begin + 1), descr.size());
  const auto field = descr.substr(begin, end + 1 - begin);
  return {"its values are records",
          use == ArrayUse::kNumbers
              ? fmt::format("save numpy.array({}.tolist())", name)
              : fmt::format("save {}[{}], or another of their fields", name, field)};
}

Answer times(const std::string& name, ArrayUse use, bool are_dates) {
  const std::string number = are_dates ? fmt::format("({0} - {0}.min())", name) : name;
  return {are_dates ? "its values are dates" : "its values are spans of time",
          use == ArrayUse::kNames ? fmt::format("save {}.astype('str')", name)
                                  : fmt::format("save {} / numpy.timedelta64(1, 's')", number)};
}

Answer refusal(char kind, std::string_view type, const std::string& name, ArrayUse use) {
  switch (kind) {
    case 'O': return {"it holds Python objects, which are never unpickled", cast_hint(name, use)};
    case 'M':
    case 'm': return times(name, use, kind == 'M');
    case 'c':
      return {"its values are complex numbers",
              use == ArrayUse::kNames
                  ? fmt::format("save {}.astype('str')", name)
                  : fmt::format("save numpy.stack([{0}.real, {0}.imag], axis=1)", name)};
    default: return {fmt::format("values of the type {} are not read", type), cast_hint(name, use)};
  }
}

bool is_read(const NpyType& type) {
  const int64_t bytes = type.bytes;
  switch (type.kind) {
    case 'b': return bytes == 1;
    case 'i':
    case 'u': return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
    case 'f': return bytes == 2 || bytes == 4 || bytes == 8;
    case 'S': return bytes > 0 && bytes <= kLongestText;
    case 'U': return bytes > 0 && bytes <= 4 * kLongestText;
    default: return false;
  }
}

}  // namespace

NpyType npy_type(std::string_view descr, const std::string& name, ArrayUse use,
                 const std::string& where) {
  const auto refuse = [&](const Answer& answer) {
    return InvalidArgument(answer.what, where, answer.hint);
  };
  if (descr.starts_with('[')) throw refuse(records(descr, name, use));
  const std::string_view type =
      descr.starts_with('\'') ? descr.substr(1, descr.find('\'', 1) - 1) : std::string_view();
  if (type.size() < 2) throw refuse({"its header is damaged", "write the file again"});
  NpyType found{.kind = type[1]};
  const char* end = type.data() + type.size();
  const bool is_number = std::from_chars(type.data() + 2, end, found.bytes).ptr == end;
  if (is_number && found.kind == 'U' && found.bytes <= kLongestText) found.bytes *= 4;
  if (!is_number || !is_read(found)) throw refuse(refusal(found.kind, type, name, use));
  found.is_swapped = type[0] == '>' && found.unit_bytes() > 1;
  return found;
}

}  // namespace hanse
