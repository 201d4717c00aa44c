// A file of TensorFlow Federated: /examples/CLIENT/NAME, one dataset a client and name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hanse/base/error.hpp"
#include "hanse/data/hdf5_file.hpp"

namespace hanse {

// Runs `work` with the library to itself. Input that cannot be read is bad input.
template <class Work>
auto read_input(Work work) {
  const hdf5::Section section;
  try {
    return work();
  } catch (const IoError& error) {
    throw InvalidArgument(error.what(), "", "the file is incomplete or damaged; fetch it again");
  }
}

// "dataset score" for each name that is not used, for the line at the start.
std::vector<std::string> unread_datasets(const std::vector<std::string>& names,
                                         const std::vector<std::string>& used);

// Open while the object lives. REQUIRES, for every call: inside an hdf5::Section.
class TffFile {
 public:
  // Lists the clients. Throws InvalidArgument: no such file, no HDF5, no group /examples, no
  // client.
  explicit TffFile(const std::string& path);
  ~TffFile();

  // Sorted by name.
  int64_t clients() const { return std::ssize(entries_); }
  const std::string& name(int64_t client) const { return entry(client).name; }

  std::vector<std::string> names(int64_t client) const;
  // [samples, ...]; its file() is its name in messages. Nothing for a client without any dataset.
  // Throws InvalidArgument that lists the names there are, when this is not one of them.
  std::optional<hdf5::Dataset> dataset(int64_t client, const std::string& name) const;

 private:
  // Clients are opened by address: looking up each of many names takes longer than reading.
  struct Entry {
    std::string name;
    uint64_t address;
  };
  const Entry& entry(int64_t client) const { return entries_[static_cast<std::size_t>(client)]; }
  std::string where(int64_t client) const;
  hdf5::Handle open(int64_t client) const;

  hdf5::File file_;
  std::vector<Entry> entries_;
};

}  // namespace hanse
