// A file of TensorFlow Federated: /examples/CLIENT/NAME, one dataset a client and name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hanse/base/error.hpp"
#include "hanse/data/hdf5_handles.hpp"
#include "plain_hdf5.hpp"

namespace hanse {

// Runs `work` with the library to itself. What cannot be read of an input is bad input.
template <class Work>
auto read_input(Work work) {
  const hdf5::Section section;
  try {
    return work();
  } catch (const IoError& error) {
    throw InvalidArgument(error.what(), "", "the file is incomplete or damaged; fetch it again");
  }
}

// What the elements of a dataset are.
enum class TffType { kInteger, kByte, kFloat, kText, kOther };

class TffFile;

// Where something stands, for messages: made when there is something to tell.
struct TffPlace {
  const TffFile* file;
  int64_t client;
  std::string name;
  std::string text() const;
};

// What the library must know of a dataset's elements.
struct TffElement {
  TffType type = TffType::kOther;
  hdf5::Handle handle;
  bool variable = false;     // a string of variable length
  int64_t stored_bytes = 0;  // of one, in the file
};

// One dataset of one client: [samples, ...]. Its file lives longer.
class TffDataset {
 public:
  // Open in the library.
  TffDataset(hdf5::Handle handle, TffPlace place);
  // In place.
  TffDataset(const PlainDataset& plain, const TffElement& element, TffPlace place);

  TffType type() const { return type_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t samples() const { return shape_.empty() ? 1 : shape_.front(); }
  int64_t size() const;                                // elements
  std::string where() const { return place_.text(); }  // for messages

  // All elements, converted; an integer that int32_t cannot hold becomes its nearest. REQUIRES: a
  // numeric type; room for size() of them.
  void read(int32_t* out) const;
  void read(float* out) const;
  void read(uint8_t* out) const;
  // REQUIRES: kText.
  std::vector<std::string> read_texts() const;

 private:
  friend class TffFile;
  void read(hdf5::Id memory_type, void* out) const;
  void convert(hdf5::Id memory_type, void* out) const;
  TffElement element() const;
  std::vector<std::string> read_variable_texts() const;
  std::vector<std::string> read_texts_in_place() const;
  std::vector<std::string> read_fixed_texts(const TffElement& element) const;

  hdf5::Handle handle_;                  // none: in place
  std::span<const std::byte> in_place_;  // elements as stored
  const TffElement* in_place_element_ = nullptr;
  TffPlace place_;
  TffType type_ = TffType::kOther;
  std::vector<int64_t> shape_;
};

// One client's group. Its file lives longer.
class TffClient {
 public:
  TffClient(const TffFile& file, int64_t client) : file_(&file), client_(client) {}

  bool has(const std::string& name) const;
  std::vector<std::string> names() const;
  // Throws InvalidArgument that lists the names there are, when this is not one of them.
  TffDataset dataset(const std::string& name) const;
  // The same through the library, whatever else knows of it.
  TffDataset open_dataset(const std::string& name) const;

 private:
  hdf5::Handle open() const;

  const TffFile* file_;
  int64_t client_;
};

// Open for as long as the object lives. REQUIRES of every call: inside an hdf5::Section.
class TffFile {
 public:
  // Lists the clients. Throws InvalidArgument: no such file, no HDF5, no group /examples, no
  // client.
  explicit TffFile(const std::string& path);

  const std::string& path() const { return path_; }
  // Sorted by name.
  int64_t clients() const { return static_cast<int64_t>(entries_.size()); }
  const std::string& name(int64_t client) const { return entry(client).name; }
  TffClient open(int64_t client) const { return {*this, client}; }

 private:
  friend class TffClient;
  friend class TffDataset;

  // Clients are opened by address: looking 342,477 names up takes longer than reading.
  struct Entry {
    std::string name;
    uint64_t address;
  };
  struct PlainType {
    std::vector<std::byte> description;
    std::unique_ptr<TffElement> element;  // datasets point to it
  };
  const Entry& entry(int64_t client) const { return entries_[static_cast<std::size_t>(client)]; }
  void list(const hdf5::Handle& examples);
  const TffElement* element_of(const PlainDataset& plain) const;
  void learn(const PlainDataset& plain, const TffDataset& dataset) const;

  std::string path_;
  hdf5::Handle file_;
  std::vector<Entry> entries_;
  PlainHdf5 plain_;
  mutable std::vector<PlainType> plain_types_;  // what the library said of them
};

}  // namespace hanse
