#include "arrays/npy_array.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>
#include <span>

#include <boost/locale/utf.hpp>
#include <fmt/format.h>
#include <zlib.h>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/log.hpp"
#include "hanse/base/options.hpp"
#include "hanse/base/short_floats.hpp"
#include "hanse/base/text.hpp"

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

constexpr const char* kFetchHint = "the file is incomplete or corrupt; write it again";
constexpr const char* kSaveHint = "save numbers or texts: numpy.savez(path, x=x, y=y)";
constexpr int64_t kLongestHeader = 1 << 16;
constexpr int64_t kMostAtOnce = int64_t{1} << 30;  // zlib counts in unsigned int

// Converts values of type From to the T that a reader wants.
template <class From, class T>
void cast_values(const std::byte* in, int64_t count, T* out) {
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, in + i * int64_t{sizeof value}, sizeof value);
    out[i] = static_cast<T>(value);
  }
}

template <class T>
void cast_halves(const std::byte* in, int64_t count, T* out) {
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, in + i * int64_t{sizeof bits}, sizeof bits);
    out[i] = static_cast<T>(half_value(bits));
  }
}

// Converts numbers of any type that is read.
template <class T>
void cast_numbers(const NpyType& type, const std::byte* in, int64_t count, T* out) {
  const bool is_signed = type.kind == 'i', is_float = type.kind == 'f';
  switch (type.bytes) {
    case 1:
      return is_signed ? cast_values<int8_t>(in, count, out) : cast_values<uint8_t>(in, count, out);
    case 2:
      if (is_float) return cast_halves(in, count, out);
      return is_signed ? cast_values<int16_t>(in, count, out)
                       : cast_values<uint16_t>(in, count, out);
    case 4:
      if (is_float) return cast_values<float>(in, count, out);
      return is_signed ? cast_values<int32_t>(in, count, out)
                       : cast_values<uint32_t>(in, count, out);
    default:
      if (is_float) return cast_values<double>(in, count, out);
      return is_signed ? cast_values<int64_t>(in, count, out)
                       : cast_values<uint64_t>(in, count, out);
  }
}

void swap_bytes(std::byte* values, int64_t bytes, int64_t each) {
  for (int64_t at = 0; at < bytes; at += each) std::reverse(values + at, values + at + each);
}

// The text behind 'key': in the header, which is the text of a Python dictionary.
std::string_view value_behind(std::string_view header, const std::string& key) {
  const std::size_t at = header.find("'" + key + "':");
  if (at == std::string_view::npos) return "";
  return trim(header.substr(at + key.size() + 3));
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

MemberStream::MemberStream(std::string_view packed, const ZipMember& member, std::string where)
    : packed_(packed), member_(member), where_(std::move(where)) {
  if (member.method == 0 && member.packed == member.unpacked) return;
  if (member.method != Z_DEFLATED) {
    throw InvalidArgument(fmt::format("it is packed by method {}", member.method), where_,
                          "numpy.savez and numpy.savez_compressed store and deflate");
  }
  inflating_ = std::make_unique<z_stream_s>();
  if (inflateInit2(inflating_.get(), -MAX_WBITS) != Z_OK) {
    throw IoError("zlib does not start: no memory", where_, "");
  }
}

MemberStream::~MemberStream() {
  if (inflating_) inflateEnd(inflating_.get());
}

void MemberStream::read(void* out, int64_t bytes) {
  auto* place = static_cast<Bytef*>(out);
  const auto damage = [&] { return InvalidArgument("the array is damaged", where_, kFetchHint); };
  if (static_cast<uint64_t>(bytes) > member_.unpacked - read_) throw damage();
  for (int64_t left = bytes; left > 0;) {
    const auto part = static_cast<unsigned>(std::min(left, kMostAtOnce));
    auto done = part;
    if (inflating_) {
      const auto given =
          static_cast<unsigned>(std::min<uint64_t>(packed_.size(), to_index(kMostAtOnce)));
      inflating_->next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed_.data()));
      inflating_->avail_in = given;
      inflating_->next_out = place;
      inflating_->avail_out = part;
      const int status = inflate(inflating_.get(), Z_SYNC_FLUSH);
      packed_.remove_prefix(given - inflating_->avail_in);
      done = part - inflating_->avail_out;
      if (done == 0 || (status != Z_OK && status != Z_STREAM_END)) throw damage();
    } else {
      std::memcpy(place, packed_.data(), part);
      packed_.remove_prefix(part);
    }
    checksum_ = static_cast<uint32_t>(crc32(checksum_, place, done));
    place += done;
    left -= done;
    read_ += done;
  }
  if (read_ == member_.unpacked && checksum_ != member_.checksum) throw damage();
}

NpyArray::NpyArray(std::string_view bytes, const ZipMember& member, const ZipSource& source,
                   const std::string& name, ArrayUse use)
    : name_(name),
      where_(fmt::format("{}, array {}", source.path, name)),
      stream_(packed_bytes(bytes, member, source), member, where_),
      bytes_(member.unpacked) {
  read_header(use);
}

void NpyArray::refuse(const std::string& what, const std::string& hint) const {
  throw InvalidArgument(what, where_, hint);
}

// "\x93NUMPY", the version in two bytes, the header's length in two bytes (version 1) or four, and
// the header.
void NpyArray::read_header(ArrayUse use) {
  uint8_t start[8];
  stream_.read(start, 8);
  if (std::memcmp(start, "\x93NUMPY", 6) != 0 || start[6] < 1 || start[6] > 3) {
    refuse("it is no array of NumPy's", kSaveHint);
  }
  const int width = start[6] == 1 ? 2 : 4;
  uint8_t length[4] = {};
  stream_.read(length, width);
  const int64_t bytes = length[0] | length[1] << 8 | length[2] << 16 | int64_t{length[3]} << 24;
  if (bytes > kLongestHeader) refuse("its header is damaged", kFetchHint);
  std::string header(to_index(bytes), '\0');
  stream_.read(header.data(), bytes);
  parse(header, use);
  const uint64_t data = bytes_ - 8 - static_cast<uint64_t>(width) - header.size();
  if (data / to_index(type_.bytes) != to_index(size_) || data % to_index(type_.bytes) != 0) {
    refuse(fmt::format("its header promises {} values of {} bytes, it has {} bytes", size_,
                       type_.bytes, data),
           kFetchHint);
  }
}

void NpyArray::parse(std::string_view header, ArrayUse use) {
  type_ = npy_type(value_behind(header, "descr"), name_, use, where_);
  const std::string_view extents = value_behind(header, "shape");
  const std::size_t end = extents.find(')');
  if (!extents.starts_with('(') || end == std::string_view::npos) {
    refuse("its header is damaged", kFetchHint);
  }
  set_shape(extents.substr(1, end - 1));
  const bool is_line = shape_.size() < 2;
  if (!is_line && !value_behind(header, "fortran_order").starts_with("False")) {
    refuse("its values stand in Fortran's order",
           fmt::format("save numpy.ascontiguousarray({})", name_));
  }
}

void NpyArray::set_shape(std::string_view extents) {
  for (const std::string& text : split_list(extents)) {
    if (text.empty()) continue;  // behind the last comma of (3,)
    int64_t extent = 0;
    const char* end = text.data() + text.size();
    if (std::from_chars(text.data(), end, extent).ptr != end || extent < 1 ||
        __builtin_mul_overflow(size_, extent, &size_)) {
      refuse(fmt::format("its shape is ({})", extents), "every extent is at least 1");
    }
    shape_.push_back(extent);
  }
}

// Reads the next values, in the processor's order of bytes.
void NpyArray::read_values(void* out, int64_t count) {
  stream_.read(out, count * type_.bytes);
  if (type_.is_swapped) {
    swap_bytes(static_cast<std::byte*>(out), count * type_.bytes, type_.unit_bytes());
  }
}

void NpyArray::read_floats(float* out, int64_t count) {
  const bool is_float32 = type_.kind == 'f' && type_.bytes == 4;
  if (is_float32) {
    read_values(out, count);
  } else {
    scratch_.resize(to_index(count * type_.bytes));
    read_values(scratch_.data(), count);
    cast_numbers(type_, scratch_.data(), count, out);
  }
  const int64_t columns = shape_.empty() ? 1 : size_ / shape_.front();
  for (int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(out[i])) refuse_value(i, out[i]);
    if (is_float32 || type_.bytes < 4) continue;
    rounded_.see(std::abs(out[i]) < 0x1p24F ? out[i] : value_at(i, out[i]), (read_ + i) % columns);
  }
  read_ += count;
}

// The value at this place of the last read ones, which became `in_float32`.
double NpyArray::value_at(int64_t place, float in_float32) const {
  const auto read = [&]<class T>(T value) {
    std::memcpy(&value, &scratch_[to_index(place * type_.bytes)], sizeof value);
    return value;
  };
  if (type_.bytes == 8 && type_.kind == 'i') return counted_double(read(int64_t{}));
  if (type_.bytes == 8 && type_.kind == 'u') return counted_double(read(uint64_t{}));
  if (type_.bytes == 8) return read(double{});
  if (type_.kind == 'i') return read(int32_t{});
  if (type_.kind == 'u') return read(uint32_t{});
  return in_float32;
}

void NpyArray::refuse_value(int64_t place, float in_float32) const {
  const double value = type_.bytes == 8 ? value_at(place, in_float32) : in_float32;
  refuse(fmt::format("{} is {}, not finite in float32", element(read_ + place), number_text(value)),
         std::isfinite(value)
             ? "divide the values by their size"
             : fmt::format("leave the sample out, or fill the value in: numpy.nan_to_num({}, "
                           "posinf=0, neginf=0)",
                           name_));
}

void NpyArray::warn_of_rounded() const {
  const std::span sample(shape_.begin() + (shape_.empty() ? 0 : 1), shape_.end());
  const std::string text =
      rounded_.text([&](int64_t column) { return column_name(name_, sample, column); });
  if (text.empty()) return;
  warning(fmt::format("{} ({}); hint: subtract the least value before, save {} - {}.min(axis=0)",
                      text, where_, name_, name_));
}

template <class T>
std::vector<T> NpyArray::numbers() {
  require_memory(size_ * 8, "the array takes", where_, kFetchHint);
  std::vector<T> values(to_index(size_));
  scratch_.resize(to_index(size_ * type_.bytes));
  read_values(scratch_.data(), size_);
  cast_numbers(type_, scratch_.data(), size_, values.data());
  return values;
}

template std::vector<int64_t> NpyArray::numbers();
template std::vector<uint64_t> NpyArray::numbers();
template std::vector<double> NpyArray::numbers();

std::vector<std::string> NpyArray::texts() {
  require_memory(size_ * int64_t{sizeof(std::string)}, "the array takes", where_, kFetchHint);
  std::vector<std::string> texts(to_index(size_));
  std::vector<char> value(to_index(type_.bytes));
  for (std::string& text : texts) {
    read_values(value.data(), 1);
    if (type_.kind == 'S') {
      text.assign(value.data(), value.size());
    } else {
      for (std::size_t at = 0; at < value.size(); at += 4) {
        uint32_t code = 0;
        std::memcpy(&code, &value[at], 4);
        if (!boost::locale::utf::is_valid_codepoint(code)) {
          refuse("a text has what is no character", kFetchHint);
        }
        boost::locale::utf::utf_traits<char>::encode(code, std::back_inserter(text));
      }
    }
    text.erase(text.find_last_not_of('\0') + 1);
  }
  const auto bad = std::ranges::find_if_not(texts, is_utf8);
  if (bad == texts.end()) return texts;
  refuse(fmt::format("the text {} is not UTF-8", element(bad - texts.begin())),
         fmt::format("save numpy.char.decode({}, 'latin1'), or with the encoding it has", name_));
}

}  // namespace hanse
