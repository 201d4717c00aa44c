// HDF5 files with every return value checked, in the few shapes Hanse uses. Every failure is a
// one-line IoError with the file's path. <hdf5.h> stays in the files that use it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace hanse::hdf5 {

using Id = int64_t;  // hid_t
using Status = int;  // herr_t: negative when it failed

// While one lives, this thread has the library to itself (it is not thread-safe) and the library
// prints nothing. Use and destroy all other types here inside a Section.
class Section {
 public:
  Section();

 private:
  std::lock_guard<std::recursive_mutex> lock_;
};

// Throws IoError "cannot WHAT: reason (FILE)" when the status, or an identifier, is negative; the
// reason is the library's innermost.
void check(Id status, const std::string& what, const std::string& file);

// Owns an identifier of any type.
class Handle {
 public:
  using Close = Status (*)(Id);

  Handle() = default;
  // Checks the identifier.
  Handle(Id id, Close close, const std::string& what, const std::string& file)
      : id_(id), close_(close) {
    check(id, what, file);
  }
  ~Handle() { reset(); }
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }

  Id id() const { return id_; }

  // Closes now, and returns the status that a destructor cannot.
  Status reset() {
    const Id id = std::exchange(id_, -1);
    return id >= 0 ? close_(id) : 0;
  }

 private:
  Id id_ = -1;
  Close close_ = nullptr;
};

enum class Kind { kInteger, kFloat, kText, kOther };

// The type of a dataset's elements, in any order of bytes.
struct Type {
  Kind kind = Kind::kOther;
  int64_t bytes = 0;      // of an element; 0: of a text of any length
  bool is_signed = true;  // of an integer

  bool operator==(const Type&) const = default;
};

// The numbers that are read and written: uint8_t, int32_t, int64_t, float, double.
template <class T>
constexpr Type kTypeOf = {std::is_integral_v<T> ? Kind::kInteger : Kind::kFloat, sizeof(T),
                          std::is_signed_v<T>};

class Dataset {
 public:
  // `name` and `file` appear in messages.
  Dataset(Handle handle, std::string name, std::string file);

  const std::string& name() const { return name_; }
  const std::string& file() const { return file_; }
  const Type& type() const { return type_; }
  // Is it one text of fixed length, or an empty one?
  bool is_text() const { return type_.kind == Kind::kText && type_.bytes > 0 && size_ <= 1; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t size() const { return size_; }  // elements
  // Are the file's elements bit by bit those of the processor's memory?
  bool is_stored_as(const Type& type) const;
  // Offset of the elements in the file, if they are contiguous; else -1.
  int64_t offset() const;

  // Writes the whole dataset and closes it; `data` holds size() elements of type().
  void write(const void* data);
  // Reads the whole dataset, converted to T; a number that T cannot hold becomes its nearest.
  // REQUIRES: numbers; room for size() of them.
  template <class T>
  void read(T* data) const {
    read(kTypeOf<T>, data);
  }
  template <class T>
  std::vector<T> values() const {
    require_room(sizeof(T));
    std::vector<T> values(static_cast<std::size_t>(size_));
    read(values.data());
    return values;
  }
  // The bytes of all texts, which have a fixed length.
  std::string text() const;
  // Texts of any length, each up to its first zero byte.
  std::vector<std::string> texts() const;

  // Rows and columns of a matrix of floats: [row, row + rows) x [column, column + columns).
  struct Block {
    int64_t row, rows, column, columns;
  };
  void write_block(const Block& block, const float* data);
  void read_block(const Block& block, float* data) const;

  void close();  // now, so that a failure is reported

 private:
  void require_room(std::size_t bytes_each) const;  // for size() of them, before they are allocated
  void read(const Type& type, void* data) const;
  void read(Id memory_type, void* data) const;
  Handle stored_type() const;
  Handle space() const;
  Handle select(const Block& block) const;

  Handle handle_;
  std::string name_;
  std::string file_;
  Type type_;
  std::vector<int64_t> shape_;
  int64_t size_ = 0;
};

class File {
 public:
  // Replaces `path`. A user block has 0 or 512 bytes; datasets start at multiples of alignment.
  static File create(const std::string& path, int64_t user_block_bytes = 0, int64_t alignment = 1);
  static File open_to_read(const std::string& path);
  // Several processes may open a file so, and write parts of its datasets that do not overlap.
  static File open_to_write(const std::string& path);

  Id id() const { return handle_.id(); }
  const std::string& path() const { return path_; }

  // Makes a dataset with its space assigned and its contents undefined, and the groups on its path.
  // Files with the same datasets are equal byte by byte: no time is stored.
  Dataset create_dataset(const std::string& name, const Type& type,
                         const std::vector<int64_t>& shape);
  // Writes a whole dataset: of a shape, of one extent, a text, or texts of one extent, each filled
  // up with zero bytes to the longest.
  template <class T>
  void write(const std::string& name, const std::vector<int64_t>& shape, const T* data) {
    create_dataset(name, kTypeOf<T>, shape).write(data);
  }
  template <class T>
  void write(const std::string& name, const std::vector<T>& values) {
    write(name, {static_cast<int64_t>(values.size())}, values.data());
  }
  void write(const std::string& name, const std::string& text);
  void write(const std::string& name, const std::vector<std::string>& texts);
  Dataset dataset(const std::string& name) const;

  bool contains(const std::string& name) const;
  // Full names of the datasets below a group, sorted.
  std::vector<std::string> dataset_names(const std::string& group) const;

  void write_attribute(const std::string& name, int64_t value);
  void write_attribute(const std::string& name, const std::string& text);
  bool has_attribute(const std::string& name) const;
  // Throws IoError when it is not one number.
  int64_t read_attribute(const std::string& name) const;
  // Nothing if it is no short text of fixed length.
  std::optional<std::string> read_text_attribute(const std::string& name) const;

  // Closes now. A write that failed is reported here alone: before it returns, nothing is known to
  // be in the file.
  void close();

 private:
  File(Handle handle, std::string path, std::unique_ptr<int> error)
      : error_(std::move(error)), handle_(std::move(handle)), path_(std::move(path)) {}
  Dataset create(const std::string& name, Id type, const Handle& space);
  void write_attribute(const std::string& name, Id type, const void* value);
  Handle attribute(const std::string& name) const;

  std::unique_ptr<int> error_;  // errno of the first write that failed; null: opened to read
  Handle handle_;
  std::string path_;
};

}  // namespace hanse::hdf5
