#include "hanse_file.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <hdf5.h>
#include <unistd.h>

#include "hanse/base/error.hpp"
#include "hanse/base/unnamed_file.hpp"
#include "hanse/data/hanse_file.hpp"
#include "hanse/data/hdf5_handles.hpp"
#include "mapped_file.hpp"
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

// Where the clients' arrays start; the samples' are in `file`.
struct ClientPlaces {
  int64_t offsets, train_end;
};

ClientPlaces write_frame(const std::string& path, HanseFile& file) {
  const hdf5::Section section;
  const ClientLayout& layout = file.layout;
  const auto clients = static_cast<int64_t>(layout.clients.size());
  std::vector<int64_t> shape = layout.shape;
  shape.insert(shape.begin(), layout.samples());
  Writer writer(path);
  writer.set("version", kVersion);
  writer.set("classes", layout.classes);
  writer.set("held_out", layout.held_out);
  for (const auto& [storage, name] : kEncodings) {
    if (storage == layout.storage) writer.set("encoding", name);
  }
  const ClientPlaces places{.offsets = writer.add("offsets", H5T_STD_I64LE, {clients + 1}),
                            .train_end = writer.add("train_end", H5T_STD_I64LE, {clients})};
  file.digest = writer.add("digest", H5T_STD_I64LE, {1});
  if (layout.classes > 0) {
    file.labels = writer.add("labels", H5T_STD_I32LE, {layout.samples()});
  } else {
    file.targets = writer.add("targets", H5T_IEEE_F32LE, {layout.samples()});
  }
  const bool floats = layout.storage == Storage::kFloat;
  file.features = writer.add("features", floats ? H5T_IEEE_F32LE : H5T_STD_U8LE, shape);
  writer.close();
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

void fill_clients(const ClientLayout& layout, int64_t* offsets, int64_t* train_end) {
  offsets[0] = 0;
  for (std::size_t c = 0; c < layout.clients.size(); ++c) {
    offsets[c + 1] = layout.clients[c].end;
    train_end[c] = layout.clients[c].train_end;
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
  const auto clients = static_cast<int64_t>(layout.clients.size());
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

HanseFile read_frame(const std::string& path) {
  const hdf5::Section section;
  const Reader reader(path);
  if (const int64_t version = reader.number("version"); version != kVersion) {
    refuse(fmt::format("the format's version is {}, this program reads {}", version, kVersion),
           path, "version");
  }
  HanseFile file;
  ClientLayout& layout = file.layout;
  layout.classes = reader.number("classes");
  layout.held_out = reader.number("held_out");
  layout.storage = read_encoding(reader, path);
  const bool floats = layout.storage == Storage::kFloat;
  layout.shape = reader.locate("features", floats ? H5T_IEEE_F32LE : H5T_STD_U8LE, file.features);
  if (layout.shape.size() < 2) refuse("a sample has no extent", path, "features");
  const int64_t samples = layout.shape.front();
  layout.shape.erase(layout.shape.begin());
  const auto counted = layout.classes > 0 ? reader.locate("labels", H5T_STD_I32LE, file.labels)
                                          : reader.locate("targets", H5T_IEEE_F32LE, file.targets);
  if (counted != std::vector<int64_t>{samples}) {
    refuse(fmt::format("there are {} samples and {} labels or targets", samples,
                       counted.empty() ? 0 : counted[0]),
           path, "features");
  }
  if (reader.has("digest")) reader.locate("digest", H5T_STD_I64LE, file.digest);
  layout.clients = read_clients(reader, samples, path);
  check_held_out(layout, path);
  return file;
}

}  // namespace

HanseFile inspect_hanse_file(const std::string& path) {
  try {
    HanseFile file = read_frame(path);
    file.bytes = static_cast<int64_t>(std::filesystem::file_size(path));
    return file;
  } catch (const IoError& error) {
    throw InvalidArgument(error.what(), "",
                          "the file is incomplete or no HDF5; " + std::string(kHint));
  }
}

SampleArrays arrays_of(const HanseFile& file, std::byte* memory) {
  const auto at = [&](int64_t place) { return place < 0 ? nullptr : memory + place; };
  return {.features = at(file.features),
          .labels = reinterpret_cast<int32_t*>(at(file.labels)),
          .targets = reinterpret_cast<float*>(at(file.targets))};
}

void check_labels(const HanseFile& file, const SampleArrays& arrays, const std::string& path) {
  if (!arrays.labels) return;
  const int32_t* begin = arrays.labels;
  const int32_t* end = begin + file.layout.samples();
  const int32_t* bad = std::find_if(
      begin, end, [&](int32_t label) { return label < 0 || label >= file.layout.classes; });
  if (bad == end) return;
  refuse(fmt::format("label {} of sample {} is outside [0, {})", *bad, bad - arrays.labels,
                     file.layout.classes),
         path, "labels");
}

HanseFileSizes write_hanse_file(const std::string& path, const DataOptions& data,
                                const FederationOptions& federation, uint64_t seed) {
  const auto source = make_client_source(data, federation, seed);
  HanseFile file;
  file.layout = source->layout();
  const ClientPlaces places = write_frame(path, file);
  file.bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  reserve(path, file.bytes);
  const auto memory = map_file(path, file.bytes, Access::kWrite);
  const SampleArrays arrays = arrays_of(file, memory.get());
  source->write(arrays);
  fill_clients(file.layout, reinterpret_cast<int64_t*>(memory.get() + places.offsets),
               reinterpret_cast<int64_t*>(memory.get() + places.train_end));
  *reinterpret_cast<uint64_t*>(memory.get() + file.digest) = digest_of(file.layout, arrays);
  const auto all = static_cast<int64_t>(file.layout.clients.size());
  return {.clients = all - file.layout.held_out,
          .held_out = file.layout.held_out,
          .samples = file.layout.samples(),
          .bytes = file.bytes};
}

}  // namespace hanse
