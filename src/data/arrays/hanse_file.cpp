#include "hanse/data/hanse_file.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "arrays/hanse_file_fields.hpp"
#include "client_source.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/log.hpp"
#include "hanse/base/mapped_file.hpp"
#include "hanse/base/text.hpp"
#include "hanse/data/seal.hpp"
#include "kinds.hpp"

namespace hanse {

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

constexpr int64_t kAlignment = 64;  // a cache line

// Writes all but the samples and their digest, for which it leaves room in the file; `digest` gets
// the place of the digest.
SamplePlaces write_frame(const std::string& path, const ClientLayout& layout, int64_t& digest) {
  const hdf5::Section section;
  auto file = hdf5::File::create(path, kSealBytes, kAlignment);
  const auto add = [&](const char* name, const hdf5::Type& type,
                       const std::vector<int64_t>& shape) {
    return file.create_dataset(name, type, shape).offset();
  };
  file.write_attribute("version", kHanseFileVersion);
  file.write_attribute("classes", layout.classes);
  file.write_attribute("held_out", layout.held_out);
  if (layout.common_test > 0) file.write_attribute("common_test", layout.common_test);
  if (layout.multi_label) file.write_attribute("multi_label", 1);
  for (const auto& [storage, name] : kEncodings) {
    if (storage == layout.storage) file.write_attribute("encoding", std::string(name));
  }
  std::vector<int64_t> offsets = {0}, train_end, validation;
  for (const ClientRanges& own : layout.clients) {
    offsets.push_back(own.end);
    train_end.push_back(own.train_end);
    validation.push_back(own.validation);
  }
  file.write("offsets", offsets);
  file.write("train_end", train_end);
  if (std::ranges::count(validation, 0) < std::ssize(validation)) {
    file.write("validation", validation);
  }
  if (!layout.client_names.empty()) file.write("client_names", layout.client_names);
  if (!layout.class_names.empty()) file.write("class_names", layout.class_names);
  if (!layout.record.values.empty())
    file.write("preparation", std::vector{features_text(record_of(layout))});
  digest = add("digest", hdf5::kTypeOf<int64_t>, {1});
  SamplePlaces places;
  const std::vector<int64_t> label_shape = label_extents(layout.samples(), layout.label_form());
  if (layout.classes > 0) {
    places.labels = add("labels", hdf5::kTypeOf<int32_t>, label_shape);
  } else {
    places.targets = add("targets", hdf5::kTypeOf<float>, label_shape);
  }
  std::vector<int64_t> shape = layout.shape;
  shape.insert(shape.begin(), layout.samples());
  places.features = add("features", feature_type(layout.storage), shape);
  file.close();
  places.bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  return places;
}

// Reserves the disk's blocks: a full disk would kill the program at a page of a sparse file.
void reserve(const std::string& path, int64_t bytes) {
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) throw IoError("cannot open the file: " + errno_text(), path);
  const bool failed = !reserve_blocks(file, 0, bytes);
  const std::string why = errno_text();
  close(file);
  if (failed) {
    throw IoError(fmt::format("no room for {} bytes: {}", bytes, why), path,
                  "make room on the disk");
  }
}

// The ranges of the samples, which the seal leaves out: they have a digest of their own, and a
// start does not read them.
std::vector<ByteRange> sample_ranges(const SamplePlaces& places, const ClientLayout& layout) {
  const int64_t second = layout.classes > 0 ? places.labels : places.targets;
  std::vector<ByteRange> ranges = {
      {places.features, places.features + layout.samples() * layout.sample_bytes()},
      {second, second + layout.samples() * layout.label_bytes()}};
  std::ranges::sort(ranges, {}, &ByteRange::begin);
  return ranges;
}

}  // namespace

void refuse_file(const std::string& what, const std::string& path, const std::string& name) {
  throw InvalidArgument(what, fmt::format("{}, {}", path, name), kHanseFileHint);
}

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

HanseFileSizes write_hanse_file(const std::string& path, const DataOptions& data,
                                const FederationOptions& federation, uint64_t seed) {
  const auto source = make_client_source(data, federation, seed);
  const ClientLayout& layout = source->layout();
  int64_t digest = -1;
  const SamplePlaces places = write_frame(path, layout, digest);
  reserve(path, places.bytes);
  const auto memory = map_file(path, places.bytes, Access::kWrite);
  const SampleArrays arrays = arrays_at(places, memory.get());
  source->write(arrays);
  if (find_data_kind(data.kind).traits.reads_a_file) {
    const auto count = to_index(arrays.labels ? layout.samples() * layout.label_values : 0);
    notice(data_line(layout, {arrays.labels, count}));
  }
  *reinterpret_cast<uint64_t*>(memory.get() + digest) = digest_of(layout, arrays);
  const std::string seal = seal_of(path, kDataSeal, sample_ranges(places, layout));
  std::ranges::copy(seal, reinterpret_cast<char*>(memory.get()));
  return {.clients = std::ssize(layout.clients) - layout.held_out,
          .held_out = layout.held_out,
          .samples = layout.samples(),
          .bytes = places.bytes};
}

}  // namespace hanse
