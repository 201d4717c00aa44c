// HDF5 handles that close themselves. Private to run/.
#pragma once

#include <mutex>
#include <string>

#include <hdf5.h>

namespace hanse::hdf5 {

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
  H5E_auto2_t print_ = nullptr;
  void* print_data_ = nullptr;
};

// Throws IoError "cannot WHAT: reason (FILE)"; the reason is the library's innermost.
[[noreturn]] void fail(const std::string& what, const std::string& file);

inline void check(herr_t status, const std::string& what, const std::string& file) {
  if (status < 0) fail(what, file);
}

// Owns an identifier of any type.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);

  Handle() = default;
  // Fails, as fail() does, when `id` is negative.
  Handle(hid_t id, Close close, const std::string& what, const std::string& file)
      : id_(id), close_(close) {
    if (id < 0) fail(what, file);
  }
  ~Handle() { reset(); }
  Handle(Handle&& other) noexcept : id_(other.id_), close_(other.close_) {
    other.id_ = H5I_INVALID_HID;
  }
  Handle& operator=(Handle&&) = delete;

  hid_t id() const { return id_; }

  // Closes now; the status tells what the destructor cannot.
  herr_t reset() {
    const hid_t id = id_;
    id_ = H5I_INVALID_HID;
    return id >= 0 ? close_(id) : 0;
  }

 private:
  hid_t id_ = H5I_INVALID_HID;
  Close close_ = nullptr;
};

}  // namespace hanse::hdf5
