#include "hanse/data/hanse_file.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "hanse/base/error.hpp"
#include "hanse/base/mapped_file.hpp"
#include "hanse/data/hdf5_file.hpp"
#include "hanse/data/seal.hpp"
#include "sources.hpp"

namespace hanse {

namespace {

constexpr int64_t kVersion = 1;
constexpr int64_t kAlignment = 64;  // a cache line
constexpr const char* kHint = "write it with hanse convert; data/README.md has the format";
constexpr std::array<std::pair<Storage, const char*>, 3> kEncodings = {
    {{Storage::kByte, "byte/255"}, {Storage::kFloat, "float"}, {Storage::kToken, "token"}}};

[[noreturn]] void refuse(const std::string& what, const std::string& path,
                         const std::string& name) {
  throw InvalidArgument(what, fmt::format("{}, {}", path, name), kHint);
}

hdf5::Type feature_type(Storage storage) {
  return storage == Storage::kFloat ? hdf5::kTypeOf<float> : hdf5::kTypeOf<uint8_t>;
}

// ---- writing ----

// Writes all but the samples and their digest, which have their room in the file; `digest` gets the
// place of the digest.
SamplePlaces write_frame(const std::string& path, const ClientLayout& layout, int64_t& digest) {
  const hdf5::Section section;
  auto file = hdf5::File::create(path, kSealBytes, kAlignment);
  const auto add = [&](const char* name, const hdf5::Type& type,
                       const std::vector<int64_t>& shape) {
    return file.create_dataset(name, type, shape).offset();
  };
  file.write_attribute("version", kVersion);
  file.write_attribute("classes", layout.classes);
  file.write_attribute("held_out", layout.held_out);
  for (const auto& [storage, name] : kEncodings) {
    if (storage == layout.storage) file.write_attribute("encoding", std::string(name));
  }
  std::vector<int64_t> offsets = {0}, train_end;
  for (const ClientRanges& own : layout.clients) {
    offsets.push_back(own.end);
    train_end.push_back(own.train_end);
  }
  file.write("offsets", offsets);
  file.write("train_end", train_end);
  digest = add("digest", hdf5::kTypeOf<int64_t>, {1});
  SamplePlaces places;
  if (layout.classes > 0) {
    places.labels = add("labels", hdf5::kTypeOf<int32_t>, {layout.samples()});
  } else {
    places.targets = add("targets", hdf5::kTypeOf<float>, {layout.samples()});
  }
  std::vector<int64_t> shape = layout.shape;
  shape.insert(shape.begin(), layout.samples());
  places.features = add("features", feature_type(layout.storage), shape);
  file.close();
  places.bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  return places;
}

// A page of a sparse file that the disk has no room for would kill the program.
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

// Of the samples, which the seal leaves out: they have a digest of their own, and a start does not
// read them.
std::vector<ByteRange> sample_ranges(const SamplePlaces& places, const ClientLayout& layout) {
  const int64_t second = layout.classes > 0 ? places.labels : places.targets;
  std::vector<ByteRange> ranges = {
      {places.features, places.features + layout.samples() * layout.sample_bytes()},
      {second, second + layout.samples() * int64_t{sizeof(int32_t)}}};
  std::ranges::sort(ranges, {}, &ByteRange::begin);
  return ranges;
}

// ---- reading ----

void require_attribute(const hdf5::File& file, const std::string& name) {
  if (!file.has_attribute(name)) refuse("there is no such attribute", file.path(), name);
}

int64_t read_number(const hdf5::File& file, const std::string& name) {
  require_attribute(file, name);
  return file.read_attribute(name);
}

Storage read_encoding(const hdf5::File& file) {
  require_attribute(file, "encoding");
  const auto name = file.read_text_attribute("encoding");
  if (!name) refuse("the attribute is no fixed-length text", file.path(), "encoding");
  for (const auto& [storage, known] : kEncodings) {
    if (*name == known) return storage;
  }
  refuse(fmt::format("unknown encoding '{}'", *name), file.path(), "encoding");
}

hdf5::Dataset open_dataset(const hdf5::File& file, const std::string& name) {
  if (!file.contains(name)) refuse("there is no such dataset", file.path(), name);
  return file.dataset(name);
}

// Checks the type and the place of a dataset; returns its extents and where it starts.
std::vector<int64_t> locate(const hdf5::File& file, const std::string& name, const hdf5::Type& type,
                            int64_t& start) {
  const hdf5::Dataset dataset = open_dataset(file, name);
  if (!dataset.is_stored_as(type)) {
    refuse("the dataset has another type than the format says", file.path(), name);
  }
  start = dataset.offset();
  if (start < 0 || start % type.bytes != 0) {
    refuse("the dataset is chunked, compressed or not aligned", file.path(), name);
  }
  return dataset.shape();
}

std::vector<int64_t> read_list(const hdf5::File& file, const std::string& name) {
  const hdf5::Dataset dataset = open_dataset(file, name);
  if (dataset.shape().size() != 1) {
    refuse("the dataset has not one extent", file.path(), name);
  }
  return dataset.values<int64_t>();
}

std::vector<ClientRanges> read_clients(const hdf5::File& file, int64_t samples) {
  const auto offsets = read_list(file, "offsets");
  const auto train_end = read_list(file, "train_end");
  if (offsets.size() != train_end.size() + 1 || train_end.empty() || offsets.front() != 0 ||
      offsets.back() != samples) {
    refuse(fmt::format("{} offsets and {} train_end do not share {} samples", offsets.size(),
                       train_end.size(), samples),
           file.path(), "offsets");
  }
  std::vector<ClientRanges> clients;
  for (std::size_t c = 0; c < train_end.size(); ++c) {
    clients.push_back({offsets[c], train_end[c], offsets[c + 1]});
    const auto& own = clients.back();
    if (own.begin >= own.end || own.train_end < own.begin || own.train_end > own.end) {
      refuse(fmt::format("client {} has samples {} to {}, training until {}", c, own.begin, own.end,
                         own.train_end),
             file.path(), "offsets");
    }
  }
  return clients;
}

void check_held_out(const ClientLayout& layout, const std::string& path) {
  const int64_t clients = std::ssize(layout.clients);
  if (layout.held_out < 0 || layout.held_out >= clients) {
    refuse(fmt::format("{} of {} clients are held out", layout.held_out, clients), path,
           "held_out");
  }
  for (int64_t c = 0; c < clients - layout.held_out; ++c) {
    const auto& own = layout.clients[static_cast<std::size_t>(c)];
    if (own.begin == own.train_end) {
      refuse(fmt::format("client {} has no training sample", c), path, "train_end");
    }
  }
}

// `digest` gets the place of the digest, if there is one.
HanseFile read_frame(const std::string& path, int64_t& digest) {
  const hdf5::Section section;
  const auto file = hdf5::File::open_to_read(path);
  if (const int64_t version = read_number(file, "version"); version != kVersion) {
    refuse(fmt::format("the format's version is {}, this program reads {}", version, kVersion),
           path, "version");
  }
  HanseFile found;
  ClientLayout& layout = found.layout;
  SamplePlaces& places = found.places;
  layout.classes = read_number(file, "classes");
  layout.held_out = read_number(file, "held_out");
  layout.storage = read_encoding(file);
  layout.shape = locate(file, "features", feature_type(layout.storage), places.features);
  if (layout.shape.size() < 2) refuse("a sample has no extent", path, "features");
  const int64_t samples = layout.shape.front();
  layout.shape.erase(layout.shape.begin());
  const auto counted = layout.classes > 0
                           ? locate(file, "labels", hdf5::kTypeOf<int32_t>, places.labels)
                           : locate(file, "targets", hdf5::kTypeOf<float>, places.targets);
  if (counted != std::vector<int64_t>{samples}) {
    refuse(fmt::format("there are {} samples and {} labels or targets", samples,
                       counted.empty() ? 0 : counted[0]),
           path, "features");
  }
  if (file.contains("digest")) locate(file, "digest", hdf5::kTypeOf<int64_t>, digest);
  layout.clients = read_clients(file, samples);
  check_held_out(layout, path);
  places.bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  return found;
}

void check_labels(const ClientLayout& layout, const int32_t* labels, const std::string& path) {
  const std::span all(labels, static_cast<std::size_t>(layout.samples()));
  const auto bad = std::ranges::find_if(
      all, [&](int32_t label) { return label < 0 || label >= layout.classes; });
  if (bad == all.end()) return;
  refuse(fmt::format("label {} of sample {} is outside [0, {})", *bad, bad - all.begin(),
                     layout.classes),
         path, "labels");
}

}  // namespace

HanseFile inspect_hanse_file(const std::string& path) {
  if (is_sealed(path, kDataSeal)) {
    if (const auto damage = seal_damage(path, kDataSeal)) {
      throw InvalidArgument(*damage, path, "the file is incomplete or corrupt; make it again");
    }
  }
  HanseFile file;
  int64_t digest = -1;
  try {
    file = read_frame(path, digest);
  } catch (const IoError& error) {
    throw InvalidArgument(error.what(), "",
                          "the file is incomplete or no HDF5; " + std::string(kHint));
  }
  const auto memory = map_file(path, file.places.bytes, Access::kRead);
  const SampleArrays arrays = arrays_at(file.places, memory.get());
  if (arrays.labels) check_labels(file.layout, arrays.labels, path);
  file.digest = digest < 0 ? digest_of(file.layout, arrays)
                           : *reinterpret_cast<const uint64_t*>(memory.get() + digest);
  return file;
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
  *reinterpret_cast<uint64_t*>(memory.get() + digest) = digest_of(layout, arrays);
  const std::string seal = seal_of(path, kDataSeal, sample_ranges(places, layout));
  std::ranges::copy(seal, reinterpret_cast<char*>(memory.get()));
  return {.clients = std::ssize(layout.clients) - layout.held_out,
          .held_out = layout.held_out,
          .samples = layout.samples(),
          .bytes = places.bytes};
}

}  // namespace hanse
