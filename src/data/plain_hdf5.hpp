// The plain part of HDF5's file format, read where it stands in the mapped file.
//
// The library takes 20 us to open a client's dataset, so two of each of 342,477 clients take 15 s;
// here one takes 0.3 us. What is understood is what the library and h5py write by default: groups
// of one symbol table, object headers of version 1, contiguous datasets, strings in global heaps
// (HDF5 File Format Specification 3.0, sections III and IV). Whatever else stands in a file is not
// found here, and left to the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hanse {

struct PlainDataset {
  std::vector<int64_t> extents;
  std::span<const std::byte> type;  // its description: equal bytes are equal types
  std::span<const std::byte> data;  // as stored; never empty
  uint64_t address = 0;             // of the data, in the file
};

class PlainHdf5 {
 public:
  // Maps the file. Throws IoError.
  explicit PlainHdf5(const std::string& path);

  // The dataset of a group, whose header stands at the address `group`. None: there is no such
  // dataset, or something on the way to it is not plain. Safe on any bytes.
  std::optional<PlainDataset> find(uint64_t group, std::string_view name) const;

  // What a stored string of variable length says: its element is a length and a place in one of the
  // file's heaps. None: there is no such thing in it. Lives as long as the object.
  static constexpr std::size_t kTextBytes = 16;
  std::optional<std::string_view> text(std::span<const std::byte, kTextBytes> element) const;

 private:
  std::span<const std::byte> part(uint64_t address, uint64_t bytes) const;
  template <class T>
  T get(uint64_t address) const;
  bool says(uint64_t address, std::string_view text) const;
  template <class F>
  void for_each_message(uint64_t header, F f) const;
  uint64_t find_link(uint64_t tree, uint64_t names, std::string_view name) const;
  std::vector<int64_t> extents_at(uint64_t message) const;
  std::optional<PlainDataset> dataset_at(uint64_t header) const;

  int64_t size_ = 0;
  std::shared_ptr<const std::byte> memory_;
};

}  // namespace hanse
