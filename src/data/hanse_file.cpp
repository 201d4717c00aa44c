#include "hanse/data/hanse_file.hpp"

#include <algorithm>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "data_line.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/log.hpp"
#include "hanse/base/mapped_file.hpp"
#include "hanse/data/hdf5_file.hpp"
#include "hanse/data/seal.hpp"
#include "hanse_file_format.hpp"
#include "kinds.hpp"
#include "sources.hpp"

namespace hanse {

namespace {

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
