#include "hanse/data/hanse_file.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>

#include <fcntl.h>
#include <fmt/format.h>
#include <hdf5.h>
#include <unistd.h>

#include "hanse/base/error.hpp"
#include "hanse/base/mapped_file.hpp"
#include "hanse/data/hdf5_handles.hpp"
#include "sources.hpp"

namespace hanse {

namespace {

using hdf5::check;
using hdf5::Handle;

constexpr int64_t kVersion = 1;
constexpr hsize_t kAlignment = 64;  // a cache line
constexpr const char* kHint = "write it with hanse convert; data/README.md has the format";
constexpr std::array<std::pair<Storage, const char*>, 3> kEncodings = {
    {{Storage::kByte, "byte/255"}, {Storage::kFloat, "float"}, {Storage::kToken, "token"}}};

[[noreturn]] void refuse(const std::string& what, const std::string& path,
                         const std::string& name) {
  throw InvalidArgument(what, fmt::format("{}, {}", path, name), kHint);
}

hid_t feature_type(Storage storage) {
  return storage == Storage::kFloat ? H5T_IEEE_F32LE : H5T_STD_U8LE;
}

// ---- writing ----

class Writer {
 public:
  explicit Writer(const std::string& path) : path_(path) {
    const Handle access = hdf5::access_properties(path);
    check(H5Pset_alignment(access.id(), 1, kAlignment), "align the data", path);
    file_ = Handle(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.id()), H5Fclose,
                   "create the file", path);
  }

  // A dataset with its room in the file, to be filled through a map. Returns where it starts.
  int64_t add(const char* name, hid_t type, const std::vector<int64_t>& shape) {
    const std::string what = fmt::format("create {}", name);
    const std::vector<hsize_t> dims(shape.begin(), shape.end());
    const Handle space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr),
                       H5Sclose, what, path_);
    const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, what, path_);
    check(H5Pset_layout(creation.id(), H5D_CONTIGUOUS), what, path_);
    check(H5Pset_alloc_time(creation.id(), H5D_ALLOC_TIME_EARLY), what, path_);
    check(H5Pset_fill_time(creation.id(), H5D_FILL_TIME_NEVER), what, path_);
    check(H5Pset_obj_track_times(creation.id(), false), what, path_);
    const Handle dataset(
        H5Dcreate2(file_.id(), name, type, space.id(), H5P_DEFAULT, creation.id(), H5P_DEFAULT),
        H5Dclose, what, path_);
    return static_cast<int64_t>(H5Dget_offset(dataset.id()));
  }

  void set(const char* name, int64_t value) {
    write_attribute(name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value);
  }

  void set(const char* name, const std::string& value) {
    const Handle type(H5Tcopy(H5T_C_S1), H5Tclose, "make a type", path_);
    check(H5Tset_size(type.id(), value.size()), "size a text", path_);
    write_attribute(name, type.id(), type.id(), value.data());
  }

  void close() { check(file_.reset(), "close the file", path_); }

 private:
  void write_attribute(const char* name, hid_t type, hid_t memory_type, const void* value) {
    const std::string what = fmt::format("write the attribute {}", name);
    const Handle space(H5Screate(H5S_SCALAR), H5Sclose, what, path_);
    const Handle attribute(H5Acreate2(file_.id(), name, type, space.id(), H5P_DEFAULT, H5P_DEFAULT),
                           H5Aclose, what, path_);
    check(H5Awrite(attribute.id(), memory_type, value), what, path_);
  }

  const std::string& path_;
  Handle file_;
};

// Where each array starts.
struct Frame {
  SamplePlaces samples;
  int64_t offsets = -1;
  int64_t train_end = -1;
  int64_t digest = -1;
};

Frame write_frame(const std::string& path, const ClientLayout& layout) {
  const hdf5::Section section;
  const int64_t clients = std::ssize(layout.clients);
  std::vector<int64_t> shape = layout.shape;
  shape.insert(shape.begin(), layout.samples());
  Writer writer(path);
  writer.set("version", kVersion);
  writer.set("classes", layout.classes);
  writer.set("held_out", layout.held_out);
  for (const auto& [storage, name] : kEncodings) {
    if (storage == layout.storage) writer.set("encoding", name);
  }
  Frame frame;
  frame.offsets = writer.add("offsets", H5T_STD_I64LE, {clients + 1});
  frame.train_end = writer.add("train_end", H5T_STD_I64LE, {clients});
  frame.digest = writer.add("digest", H5T_STD_I64LE, {1});
  if (layout.classes > 0) {
    frame.samples.labels = writer.add("labels", H5T_STD_I32LE, {layout.samples()});
  } else {
    frame.samples.targets = writer.add("targets", H5T_IEEE_F32LE, {layout.samples()});
  }
  frame.samples.features = writer.add("features", feature_type(layout.storage), shape);
  writer.close();
  frame.samples.bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  return frame;
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

// ---- reading ----

class Reader {
 public:
  explicit Reader(const std::string& path)
      : path_(path),
        file_(H5Fopen(path.c_str(), H5F_ACC_RDONLY, hdf5::access_properties(path).id()), H5Fclose,
              "open the file", path) {}

  int64_t number(const char* name) const {
    int64_t value = 0;
    const Handle attribute = open_attribute(name);
    check(H5Aread(attribute.id(), H5T_NATIVE_INT64, &value), "read an attribute", path_);
    return value;
  }

  std::string text(const char* name) const {
    const Handle attribute = open_attribute(name);
    const Handle type(H5Aget_type(attribute.id()), H5Tclose, "read a type", path_);
    if (H5Tget_class(type.id()) != H5T_STRING || H5Tis_variable_str(type.id()) > 0) {
      refuse("the attribute is no fixed-length text", path_, name);
    }
    std::string value(H5Tget_size(type.id()), '\0');
    check(H5Aread(attribute.id(), type.id(), value.data()), "read an attribute", path_);
    return value.substr(0, value.find('\0'));
  }

  bool has(const char* name) const { return H5Lexists(file_.id(), name, H5P_DEFAULT) > 0; }

  // Checks the type and the place of a dataset; returns its extents and where it starts.
  std::vector<int64_t> locate(const char* name, hid_t type, int64_t& start) const {
    const Handle dataset = open_dataset(name);
    const Handle own_type(H5Dget_type(dataset.id()), H5Tclose, "read a type", path_);
    if (H5Tequal(own_type.id(), type) <= 0) {
      refuse("the dataset has another type than the format says", path_, name);
    }
    const haddr_t offset = H5Dget_offset(dataset.id());
    if (offset == HADDR_UNDEF || offset % H5Tget_size(type) != 0) {
      refuse("the dataset is chunked, compressed or not aligned", path_, name);
    }
    start = static_cast<int64_t>(offset);
    return shape(dataset);
  }

  std::vector<int64_t> read(const char* name) const {
    const Handle dataset = open_dataset(name);
    const auto extents = shape(dataset);
    if (extents.size() != 1) refuse("the dataset has not one extent", path_, name);
    std::vector<int64_t> values(static_cast<std::size_t>(extents[0]));
    check(H5Dread(dataset.id(), H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
          "read a dataset", path_);
    return values;
  }

 private:
  Handle open_attribute(const char* name) const {
    if (H5Aexists(file_.id(), name) <= 0) refuse("there is no such attribute", path_, name);
    return {H5Aopen(file_.id(), name, H5P_DEFAULT), H5Aclose, "open an attribute", path_};
  }
  Handle open_dataset(const char* name) const {
    if (!has(name)) refuse("there is no such dataset", path_, name);
    return {H5Dopen2(file_.id(), name, H5P_DEFAULT), H5Dclose, "open a dataset", path_};
  }
  std::vector<int64_t> shape(const Handle& dataset) const {
    const Handle space(H5Dget_space(dataset.id()), H5Sclose, "read a dataspace", path_);
    std::vector<hsize_t> dims(
        static_cast<std::size_t>(std::max(0, H5Sget_simple_extent_ndims(space.id()))));
    if (!dims.empty()) H5Sget_simple_extent_dims(space.id(), dims.data(), nullptr);
    return {dims.begin(), dims.end()};
  }

  const std::string& path_;
  Handle file_;
};

Storage read_encoding(const Reader& reader, const std::string& path) {
  const std::string name = reader.text("encoding");
  for (const auto& [storage, known] : kEncodings) {
    if (name == known) return storage;
  }
  refuse(fmt::format("unknown encoding '{}'", name), path, "encoding");
}

std::vector<ClientRanges> read_clients(const Reader& reader, int64_t samples,
                                       const std::string& path) {
  const auto offsets = reader.read("offsets");
  const auto train_end = reader.read("train_end");
  if (offsets.size() != train_end.size() + 1 || train_end.empty() || offsets.front() != 0 ||
      offsets.back() != samples) {
    refuse(fmt::format("{} offsets and {} train_end do not share {} samples", offsets.size(),
                       train_end.size(), samples),
           path, "offsets");
  }
  std::vector<ClientRanges> clients;
  for (std::size_t c = 0; c < train_end.size(); ++c) {
    clients.push_back({offsets[c], train_end[c], offsets[c + 1]});
    const auto& own = clients.back();
    if (own.begin >= own.end || own.train_end < own.begin || own.train_end > own.end) {
      refuse(fmt::format("client {} has samples {} to {}, training until {}", c, own.begin, own.end,
                         own.train_end),
             path, "offsets");
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
  const Reader reader(path);
  if (const int64_t version = reader.number("version"); version != kVersion) {
    refuse(fmt::format("the format's version is {}, this program reads {}", version, kVersion),
           path, "version");
  }
  HanseFile file;
  ClientLayout& layout = file.layout;
  SamplePlaces& places = file.places;
  layout.classes = reader.number("classes");
  layout.held_out = reader.number("held_out");
  layout.storage = read_encoding(reader, path);
  layout.shape = reader.locate("features", feature_type(layout.storage), places.features);
  if (layout.shape.size() < 2) refuse("a sample has no extent", path, "features");
  const int64_t samples = layout.shape.front();
  layout.shape.erase(layout.shape.begin());
  const auto counted = layout.classes > 0
                           ? reader.locate("labels", H5T_STD_I32LE, places.labels)
                           : reader.locate("targets", H5T_IEEE_F32LE, places.targets);
  if (counted != std::vector<int64_t>{samples}) {
    refuse(fmt::format("there are {} samples and {} labels or targets", samples,
                       counted.empty() ? 0 : counted[0]),
           path, "features");
  }
  if (reader.has("digest")) reader.locate("digest", H5T_STD_I64LE, digest);
  layout.clients = read_clients(reader, samples, path);
  check_held_out(layout, path);
  places.bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  return file;
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
  const Frame frame = write_frame(path, layout);
  reserve(path, frame.samples.bytes);
  const auto memory = map_file(path, frame.samples.bytes, Access::kWrite);
  const SampleArrays arrays = arrays_at(frame.samples, memory.get());
  source->write(arrays);
  auto* offsets = reinterpret_cast<int64_t*>(memory.get() + frame.offsets);
  auto* train_end = reinterpret_cast<int64_t*>(memory.get() + frame.train_end);
  *offsets++ = 0;
  for (const ClientRanges& own : layout.clients) {
    *offsets++ = own.end;
    *train_end++ = own.train_end;
  }
  *reinterpret_cast<uint64_t*>(memory.get() + frame.digest) = digest_of(layout, arrays);
  return {.clients = std::ssize(layout.clients) - layout.held_out,
          .held_out = layout.held_out,
          .samples = layout.samples(),
          .bytes = frame.samples.bytes};
}

}  // namespace hanse
