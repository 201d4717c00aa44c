#include "npy_array.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>

#include <boost/locale/utf.hpp>
#include <fmt/format.h>
#include <zlib.h>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/options.hpp"

namespace hanse {

namespace {

constexpr const char* kFetchHint = "the file is incomplete or corrupt; write it again";
constexpr const char* kSaveHint = "save numbers or texts: numpy.savez(path, x=x, y=y)";
constexpr int64_t kLongestHeader = 1 << 16;
constexpr int64_t kMostAtOnce = int64_t{1} << 30;  // zlib counts in unsigned int

// Values of another type as T, by which a reader asks for them.
template <class From, class T>
void cast_values(const std::byte* in, int64_t count, T* out) {
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, in + i * int64_t{sizeof value}, sizeof value);
    out[i] = static_cast<T>(value);
  }
}

// False for a type that is none of these.
template <class T>
bool cast_integers(char kind, int64_t bytes, const std::byte* in, int64_t count, T* out) {
  const bool is_signed = kind == 'i';
  switch (bytes) {
    case 1:
      is_signed ? cast_values<int8_t>(in, count, out) : cast_values<uint8_t>(in, count, out);
      return true;
    case 2:
      is_signed ? cast_values<int16_t>(in, count, out) : cast_values<uint16_t>(in, count, out);
      return true;
    case 4:
      is_signed ? cast_values<int32_t>(in, count, out) : cast_values<uint32_t>(in, count, out);
      return true;
    case 8:
      is_signed ? cast_values<int64_t>(in, count, out) : cast_values<uint64_t>(in, count, out);
      return true;
    default: return false;
  }
}

bool is_known_type(char kind, int64_t bytes) {
  const bool is_power = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
  switch (kind) {
    case 'b': return bytes == 1;
    case 'i':
    case 'u': return is_power;
    case 'f': return bytes == 4 || bytes == 8;
    case 'S':
    case 'U': return bytes > 0;
    default: return false;
  }
}

// What stands behind 'key': in the header, which is the text of a Python dictionary.
std::string_view value_behind(std::string_view header, const std::string& key) {
  const std::size_t at = header.find("'" + key + "':");
  if (at == std::string_view::npos) return "";
  return trim(header.substr(at + key.size() + 3));
}

}  // namespace

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
                   const std::string& where)
    : where_(where),
      stream_(packed_bytes(bytes, member, source), member, where),
      bytes_(member.unpacked) {
  read_header();
}

void NpyArray::refuse(const std::string& what, const std::string& hint) const {
  throw InvalidArgument(what, where_, hint);
}

// "\x93NUMPY", the version in two bytes, the header's length in two bytes (version 1) or four, and
// the header.
void NpyArray::read_header() {
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
  parse(header);
  const uint64_t data = bytes_ - 8 - static_cast<uint64_t>(width) - header.size();
  if (data / to_index(value_bytes_) != to_index(size_) || data % to_index(value_bytes_) != 0) {
    refuse(fmt::format("its header promises {} values of {} bytes, it has {} bytes", size_,
                       value_bytes_, data),
           kFetchHint);
  }
}

void NpyArray::parse(std::string_view header) {
  const std::string_view type = value_behind(header, "descr");
  if (!type.starts_with('\'')) refuse("its values are records", kSaveHint);
  set_type(type.substr(1, type.find('\'', 1) - 1));
  const std::string_view extents = value_behind(header, "shape");
  const std::size_t end = extents.find(')');
  if (!extents.starts_with('(') || end == std::string_view::npos) {
    refuse("its header is damaged", kFetchHint);
  }
  set_shape(extents.substr(1, end - 1));
  const bool is_line = shape_.size() < 2;
  if (!is_line && !value_behind(header, "fortran_order").starts_with("False")) {
    refuse("its values stand in Fortran's order", "save numpy.ascontiguousarray(x)");
  }
}

void NpyArray::set_type(std::string_view type) {
  if (type.size() >= 2 && type[1] == 'O') {
    refuse("it holds Python objects, which are never unpickled", kSaveHint);
  }
  const char* end = type.data() + type.size();
  if (type.size() < 3 || type.size() > 12 ||
      std::from_chars(type.data() + 2, end, value_bytes_).ptr != end) {
    refuse("its header is damaged", kFetchHint);
  }
  kind_ = type[1];
  if (kind_ == 'U' && value_bytes_ <= kLongestHeader) value_bytes_ *= 4;  // of a character
  if (!is_known_type(kind_, value_bytes_) || value_bytes_ > 4 * kLongestHeader) {
    refuse(fmt::format("values of the type {} are not read", type),
           "integers, float32, float64 and texts are");
  }
  const bool is_swapped = type[0] == '>' && kind_ != 'S' && value_bytes_ > 1;
  if (is_swapped) refuse("its bytes stand in big endian order", "save x.astype('<f4')");
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

void NpyArray::read_floats(float* out, int64_t count) {
  if (kind_ == 'f' && value_bytes_ == 4) {
    stream_.read(out, 4 * count);
  } else {
    scratch_.resize(to_index(count * value_bytes_));
    stream_.read(scratch_.data(), std::ssize(scratch_));
    if (kind_ == 'f') {
      cast_values<double>(scratch_.data(), count, out);
    } else {
      cast_integers(kind_, value_bytes_, scratch_.data(), count, out);
    }
  }
  if (std::all_of(out, out + count, [](float x) { return std::isfinite(x); })) return;
  refuse("a value is not finite in float32", "remove the sample");
}

std::vector<int64_t> NpyArray::integers() {
  require_memory(size_ * 8, "the array takes", where_, kFetchHint);
  std::vector<int64_t> values(to_index(size_));
  scratch_.resize(to_index(size_ * value_bytes_));
  stream_.read(scratch_.data(), std::ssize(scratch_));
  cast_integers(kind_, value_bytes_, scratch_.data(), size_, values.data());
  return values;
}

std::vector<std::string> NpyArray::texts() {
  require_memory(size_ * int64_t{sizeof(std::string)}, "the array takes", where_, kFetchHint);
  std::vector<std::string> texts(to_index(size_));
  std::vector<char> value(to_index(value_bytes_));
  for (std::string& text : texts) {
    stream_.read(value.data(), value_bytes_);
    if (kind_ == 'S') {
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
  return texts;
}

}  // namespace hanse
