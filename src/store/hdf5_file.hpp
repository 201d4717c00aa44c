// HDF5 files with every return value checked, in the few shapes Hanse uses. Every
// failure is a one-line IoError with the file's path.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "hanse/data/hdf5_handles.hpp"

namespace hanse::hdf5 {

// What a dataset's elements are. kText is one fixed-length string.
enum class Kind { kInt64, kDouble, kFloat, kText, kOther };

std::string kind_name(Kind kind);

template <class T>
constexpr Kind kKindOf = std::is_same_v<T, int64_t>  ? Kind::kInt64
                         : std::is_same_v<T, double> ? Kind::kDouble
                                                     : Kind::kFloat;

class Dataset {
 public:
  Dataset(Handle handle, std::string name, std::string file);

  const std::string& name() const { return name_; }
  Kind kind() const { return kind_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  // Elements; of a text, its bytes.
  int64_t size() const { return size_; }

  // The whole dataset. `data` holds size() elements of kind(), which is not kOther.
  void write(const void* data);
  void read(void* data) const;
  // REQUIRES: kind() is that of T; char is a text's.
  template <class T>
  std::vector<T> values() const {
    std::vector<T> values(static_cast<std::size_t>(size_));
    read(values.data());
    return values;
  }
  std::string text() const {
    const std::vector<char> characters = values<char>();
    return {characters.begin(), characters.end()};
  }

  // Rows and columns of a matrix of floats: [row, row + rows) x [column, column + columns).
  struct Block {
    int64_t row, rows, column, columns;
  };
  void write_block(const Block& block, const float* data);
  void read_block(const Block& block, float* data) const;

  // Closes now, so that a failure is reported.
  void close();

 private:
  Handle memory_type() const;
  Handle select(const Block& block) const;

  Handle handle_;
  std::string name_;
  std::string file_;
  Kind kind_ = Kind::kOther;
  std::vector<int64_t> shape_;
  int64_t size_ = 0;
};

class File {
 public:
  // A new file in place of `path`, with a user block of that many bytes (0, or 512).
  static File create(const std::string& path, int64_t user_block_bytes);
  static File open_to_read(const std::string& path);
  // With `mpi_comm`, which points to an MPI_Comm, through MPI-IO: collective.
  static File open_to_write(const std::string& path, const void* mpi_comm = nullptr);

  // A dataset with its space assigned and its contents undefined; groups on the way are made.
  // Files with the same datasets are equal byte by byte: no time is stored.
  Dataset create_dataset(const std::string& name, Kind kind, const std::vector<int64_t>& shape);
  // A whole dataset, and a text.
  template <class T>
  void write(const std::string& name, const std::vector<int64_t>& shape, const T* data) {
    write(create_dataset(name, kKindOf<T>, shape), data);
  }
  void write_text(const std::string& name, const std::string& text);
  Dataset dataset(const std::string& name) const;

  bool contains(const std::string& name) const;
  // Full names of the datasets below a group, sorted.
  std::vector<std::string> dataset_names(const std::string& group) const;

  void write_attribute(const std::string& name, int64_t value);
  int64_t read_attribute(const std::string& name) const;

  // Closes now, so that a failure is reported. Collective when opened so.
  void close();

 private:
  File(Handle handle, std::string path) : handle_(std::move(handle)), path_(std::move(path)) {}
  Dataset create(const std::string& name, const Handle& type, const Handle& space);
  static void write(Dataset dataset, const void* data);

  Handle handle_;
  std::string path_;
};

}  // namespace hanse::hdf5
