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

// What the library must know of a dataset's elements.
struct TffElement {
  TffType type = TffType::kOther;
  hdf5::Handle handle;
  bool variable = false;     // a string of variable length
  int64_t stored_bytes = 0;  // of one, in the file
};

class TffFile;

// One dataset of one client: [samples, ...]. Its file lives longer.
class TffDataset {
 public:
  TffType type() const { return element_->type; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t samples() const { return shape_.empty() ? 1 : shape_.front(); }
  int64_t size() const;       // elements
  std::string where() const;  // for messages

  // All elements, converted; an integer that int32_t cannot hold becomes its nearest. REQUIRES: a
  // numeric type; room for size() of them.
  void read(int32_t* out) const;
  void read(float* out) const;
  void read(uint8_t* out) const;
  // REQUIRES: kText.
  std::vector<std::string> read_texts() const;

 private:
  friend class TffFile;
  TffDataset(const TffFile& file, int64_t client, std::string name)
      : file_(file), client_(client), name_(std::move(name)) {}
  void read(hdf5::Id memory_type, void* out) const;
  std::vector<std::string> read_variable_texts() const;
  std::vector<std::string> read_fixed_texts() const;

  const TffFile& file_;
  int64_t client_;
  std::string name_;
  hdf5::Handle handle_;                  // none: in place
  std::span<const std::byte> in_place_;  // elements as stored
  std::shared_ptr<const TffElement> element_;
  std::vector<int64_t> shape_;
};

// Open for as long as the object lives. REQUIRES of every call: inside an hdf5::Section.
class TffFile {
 public:
  // Lists the clients. Throws InvalidArgument: no such file, no HDF5, no group /examples, no
  // client.
  explicit TffFile(const std::string& path);
  ~TffFile();

  // Sorted by name.
  int64_t clients() const { return std::ssize(entries_); }
  const std::string& name(int64_t client) const { return entry(client).name; }

  bool has(int64_t client, const std::string& name) const;
  std::vector<std::string> names(int64_t client) const;
  // Throws InvalidArgument that lists the names there are, when this is not one of them.
  TffDataset dataset(int64_t client, const std::string& name) const;

 private:
  friend class TffDataset;

  // Clients are opened by address: looking 342,477 names up takes longer than reading.
  struct Entry {
    std::string name;
    uint64_t address;
  };
  struct PlainType {
    std::vector<std::byte> description;
    std::shared_ptr<const TffElement> element;
  };
  const Entry& entry(int64_t client) const { return entries_[static_cast<std::size_t>(client)]; }
  std::string where(int64_t client) const;
  hdf5::Handle open(int64_t client) const;
  TffDataset open_dataset(int64_t client, const std::string& name) const;
  std::shared_ptr<const TffElement> element_of(const PlainDataset& plain) const;
  void learn(const PlainDataset& plain, const TffDataset& dataset) const;

  std::string path_;
  hdf5::Handle file_;
  std::vector<Entry> entries_;
  PlainHdf5 plain_;
  mutable std::vector<PlainType> plain_types_;  // what the library said of them
};

}  // namespace hanse
