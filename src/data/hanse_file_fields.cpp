#include "hanse_file_fields.hpp"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/mapped_file.hpp"
#include "hanse/base/text.hpp"
#include "hanse_file_format.hpp"

namespace hanse {

void refuse_file(const std::string& what, const std::string& path, const std::string& name) {
  throw InvalidArgument(what, fmt::format("{}, {}", path, name), kHanseFileHint);
}

namespace {

void require_attribute(const hdf5::File& file, const std::string& name) {
  if (!file.has_attribute(name)) refuse_file("there is no such attribute", file.path(), name);
}

hdf5::Dataset open_dataset(const hdf5::File& file, const std::string& name) {
  if (!file.contains(name)) refuse_file("there is no such dataset", file.path(), name);
  return file.dataset(name);
}

// Offset of its contiguous elements.
int64_t place_of(const hdf5::Dataset& dataset, const std::string& path) {
  const int64_t start = dataset.offset();
  if (start < 0) refuse_file("the dataset is chunked or compressed", path, dataset.name());
  return start;
}

// Reads the bytes itself: the library would read beyond the ends in a damaged file.
void read_bytes(const std::string& path, int64_t start, void* out, int64_t bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file.seekg(start) || !file.read(static_cast<char*>(out), bytes)) {
    throw IoError("cannot read the file: " + errno_text(), path);
  }
}

}  // namespace

int64_t read_number(const hdf5::File& file, const std::string& name) {
  require_attribute(file, name);
  return file.read_attribute(name);
}

Storage read_encoding(const hdf5::File& file) {
  require_attribute(file, "encoding");
  const auto name = file.read_text_attribute("encoding");
  if (!name) refuse_file("the attribute is no fixed-length text", file.path(), "encoding");
  for (const auto& [storage, known] : kEncodings) {
    if (*name == known) return storage;
  }
  refuse_file(fmt::format("unknown encoding '{}'", *name), file.path(), "encoding");
}

std::vector<int64_t> locate(const hdf5::File& file, const std::string& name, const hdf5::Type& type,
                            int64_t& start) {
  const hdf5::Dataset dataset = open_dataset(file, name);
  if (!dataset.is_stored_as(type)) {
    refuse_file("the dataset has another type than the format says", file.path(), name);
  }
  start = dataset.offset();
  if (start < 0 || start % type.bytes != 0) {
    refuse_file("the dataset is chunked, compressed or not aligned", file.path(), name);
  }
  return dataset.shape();
}

std::vector<int64_t> read_list(const hdf5::File& file, const std::string& name) {
  const hdf5::Dataset dataset = open_dataset(file, name);
  if (dataset.shape().size() != 1) {
    refuse_file("the dataset has not one extent", file.path(), name);
  }
  if (!dataset.is_stored_as(hdf5::kTypeOf<int64_t>)) {
    refuse_file("the dataset has another type than the format says", file.path(), name);
  }
  const int64_t start = place_of(dataset, file.path());
  std::vector<int64_t> values(static_cast<std::size_t>(dataset.size()));
  read_bytes(file.path(), start, values.data(), dataset.size() * 8);
  return values;
}

std::vector<std::string> read_names(const hdf5::File& file, const std::string& name,
                                    int64_t count) {
  if (!file.contains(name)) return {};
  const hdf5::Dataset dataset = file.dataset(name);
  if (dataset.type().kind != hdf5::Kind::kText || dataset.shape() != std::vector<int64_t>{count}) {
    refuse_file(fmt::format("names are {} texts, these are not", count), file.path(), name);
  }
  std::vector<std::string> names;
  if (const int64_t bytes = dataset.type().bytes; bytes > 0) {
    const int64_t start = place_of(dataset, file.path());
    std::string all(static_cast<std::size_t>(count * bytes), '\0');
    read_bytes(file.path(), start, all.data(), std::ssize(all));
    for (int64_t i = 0; i < count; ++i) {
      const std::string text =
          all.substr(static_cast<std::size_t>(i * bytes), static_cast<std::size_t>(bytes));
      names.push_back(text.substr(0, text.find('\0')));
    }
  } else {
    names = dataset.texts();
  }
  if (std::ranges::count(names, std::string()) > 0) {
    refuse_file("a name is empty", file.path(), name);
  }
  const auto bad = std::ranges::find_if_not(names, is_utf8);
  if (bad != names.end()) {
    refuse_file(fmt::format("the name '{}' is not UTF-8", *bad), file.path(), name);
  }
  return names;
}

}  // namespace hanse
