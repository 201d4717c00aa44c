// One array of an NPZ file, read from its start to its end, and the type of its values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hanse/base/zip_directory.hpp"
#include "rounded_numbers.hpp"

struct z_stream_s;  // of zlib

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

// Unpacks a member of a zip file: stored or deflated.
class MemberStream {
 public:
  // Both must outlive the object. Throws InvalidArgument: another packing.
  MemberStream(std::string_view packed, const ZipMember& member, std::string where);
  ~MemberStream();
  MemberStream(const MemberStream&) = delete;
  MemberStream& operator=(const MemberStream&) = delete;

  // Fills out [bytes]. Throws InvalidArgument when the member is damaged or too short, and at its
  // last byte when its checksum differs.
  void read(void* out, int64_t bytes);

 private:
  std::string_view packed_;  // the rest of a stored member
  const ZipMember& member_;
  std::string where_;
  std::unique_ptr<z_stream_s> inflating_;  // null: stored
  uint64_t read_ = 0;
  uint32_t checksum_ = 0;
};

// An array of numbers or texts in the order of C, with bytes in either order. The constructor
// throws InvalidArgument for all else, Python objects among it: nothing is ever unpickled.
class NpyArray {
 public:
  // `bytes` are the file's and must outlive the object; `name` and `use` are for messages.
  NpyArray(std::string_view bytes, const ZipMember& member, const ZipSource& source,
           const std::string& name, ArrayUse use);

  const std::string& name() const { return name_; }
  const std::string& where() const { return where_; }
  const std::vector<int64_t>& shape() const { return shape_; }  // no extent is 0
  int64_t size() const { return size_; }                        // values
  const NpyType& type() const { return type_; }
  bool is_bytes() const { return type_.kind == 'u' && type_.bytes == 1; }
  bool is_float() const { return type_.kind == 'f'; }
  bool is_text() const { return type_.is_text(); }

  // Copies the next values' bytes. REQUIRES: is_bytes().
  void read_bytes(std::byte* out, int64_t count) { stream_.read(out, count); }
  // The next values. REQUIRES: numbers. Throws InvalidArgument: not finite in float32.
  void read_floats(float* out, int64_t count);
  // Warns of numbers among them that float32 cannot hold.
  void warn_of_rounded() const;
  // All values. REQUIRES: numbers that T holds; T is int64_t, uint64_t or double.
  template <class T>
  std::vector<T> numbers();
  // All values, as UTF-8. REQUIRES: texts. Throws InvalidArgument: they are not.
  std::vector<std::string> texts();

  // "x[3, 1]": the value at this place, in the order of C.
  std::string element(int64_t place) const { return element_name(name_, shape_, place); }
  // Throws InvalidArgument about the array.
  [[noreturn]] void refuse(const std::string& what, const std::string& hint) const;

 private:
  void read_header(ArrayUse use);
  void parse(std::string_view header, ArrayUse use);
  void set_shape(std::string_view extents);
  void read_values(void* out, int64_t count);
  double value_at(int64_t place, float in_float32) const;
  [[noreturn]] void refuse_value(int64_t place, float in_float32) const;

  std::string name_, where_;
  MemberStream stream_;
  NpyType type_;
  std::vector<int64_t> shape_;
  int64_t size_ = 1;
  int64_t read_ = 0;  // values, by read_floats
  RoundedNumbers rounded_;
  uint64_t bytes_;  // of the member
  std::vector<std::byte> scratch_;
};

}  // namespace hanse
