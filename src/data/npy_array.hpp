// One array of an NPZ file, read from its start to its end.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hanse/base/zip_directory.hpp"

struct z_stream_s;

namespace hanse {

// Unpacks a member of a zip file: stored or deflated.
class MemberStream {
 public:
  // Both must outlive the object. Throws InvalidArgument: packed in another way.
  MemberStream(std::string_view packed, const ZipMember& member, std::string where);
  ~MemberStream();
  MemberStream(const MemberStream&) = delete;
  MemberStream& operator=(const MemberStream&) = delete;

  // Fills out [bytes]. Throws InvalidArgument when the member is damaged or ends before; behind its
  // last byte also when its checksum is another.
  void read(void* out, int64_t bytes);

 private:
  std::string_view packed_;  // what is left, of a stored member
  const ZipMember& member_;
  std::string where_;
  std::unique_ptr<z_stream_s> inflating_;  // null: stored
  uint64_t read_ = 0;
  uint32_t checksum_ = 0;
};

// An array of numbers or texts in the order of C. Throws InvalidArgument, in the constructor, for
// all else, Python objects among it: nothing is ever unpickled.
class NpyArray {
 public:
  // `bytes` of the file, which must outlive the object; `where` names the array for messages.
  NpyArray(std::string_view bytes, const ZipMember& member, const ZipSource& source,
           const std::string& where);

  const std::string& where() const { return where_; }
  const std::vector<int64_t>& shape() const { return shape_; }  // none is 0
  int64_t size() const { return size_; }                        // values
  // 'u' and 'i': integers of value_bytes() bytes, 'f': floating-point, 'b': truth values; 'U' and
  // 'S': texts.
  char kind() const { return kind_; }
  int64_t value_bytes() const { return value_bytes_; }
  bool is_bytes() const { return kind_ == 'u' && value_bytes_ == 1; }
  bool is_text() const { return kind_ == 'U' || kind_ == 'S'; }

  // The next values, as they stand; REQUIRES: is_bytes().
  void read_bytes(std::byte* out, int64_t count) { stream_.read(out, count); }
  // The next values. REQUIRES: numbers. Throws InvalidArgument: not finite in float32.
  void read_floats(float* out, int64_t count);
  // All values. REQUIRES: integers or truth values; or texts, which come as UTF-8.
  std::vector<int64_t> integers();
  std::vector<std::string> texts();

  // Throws InvalidArgument about the array.
  [[noreturn]] void refuse(const std::string& what, const std::string& hint) const;

 private:
  void read_header();
  void parse(std::string_view header);
  void set_type(std::string_view type);
  void set_shape(std::string_view extents);

  std::string where_;
  MemberStream stream_;
  std::vector<int64_t> shape_;
  char kind_ = 0;
  int64_t value_bytes_ = 0;
  int64_t size_ = 1;
  uint64_t bytes_;  // of the member
  std::vector<std::byte> scratch_;
};

}  // namespace hanse
