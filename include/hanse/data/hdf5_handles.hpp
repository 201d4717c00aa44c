// HDF5 handles that close themselves; <hdf5.h> stays in the files that use them. For data/ and
// run/, which read and write such files.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

namespace hanse::hdf5 {

using Id = int64_t;  // hid_t
using Status = int;  // herr_t: negative when it failed

// While one lives, this thread has the library to itself (it is not thread-safe) and the library
// prints nothing. All other types here are used, and destroyed, inside a Section.
class Section {
 public:
  Section();
  ~Section();
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;

 private:
  std::lock_guard<std::recursive_mutex> lock_;
  Status (*print_)(Id stack, void* data) = nullptr;
  void* print_data_ = nullptr;
};

// Throws IoError "cannot WHAT: reason (FILE)"; the reason is the library's innermost.
[[noreturn]] void fail(const std::string& what, const std::string& file);

inline void check(Status status, const std::string& what, const std::string& file) {
  if (status < 0) fail(what, file);
}

// Owns an identifier of any type.
class Handle {
 public:
  using Close = Status (*)(Id);

  Handle() = default;
  // Fails, as fail() does, when `id` is negative.
  Handle(Id id, Close close, const std::string& what, const std::string& file)
      : id_(id), close_(close) {
    if (id < 0) fail(what, file);
  }
  ~Handle() { reset(); }
  Handle(Handle&& other) noexcept : id_(other.id_), close_(other.close_) { other.id_ = -1; }
  Handle& operator=(Handle&& other) noexcept {
    reset();
    id_ = other.id_;
    close_ = other.close_;
    other.id_ = -1;
    return *this;
  }

  Id id() const { return id_; }

  // Closes now; the status says what the destructor cannot.
  Status reset() {
    const Id id = id_;
    id_ = -1;
    return id >= 0 ? close_(id) : 0;
  }

 private:
  Id id_ = -1;
  Close close_ = nullptr;
};

// Access to a file without locks: files are written under a temporary name and renamed, so that a
// lock adds nothing, and fails on file systems that have none.
Handle access_properties(const std::string& file);

}  // namespace hanse::hdf5
