#include "hdf5_file.hpp"

#include <algorithm>
#include <utility>

#include <hdf5.h>
#include <mpi.h>

#include "hanse/base/error.hpp"

namespace hanse::hdf5 {

namespace {

Handle text_type(std::size_t bytes, const std::string& file) {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose, "make a type", file);
  check(H5Tset_size(type.id(), std::max<std::size_t>(bytes, 1)), "size a text", file);
  check(H5Tset_strpad(type.id(), H5T_STR_NULLPAD), "pad a text", file);
  check(H5Tset_cset(type.id(), H5T_CSET_UTF8), "encode a text", file);
  return type;
}

Handle file_type(Kind kind, const std::string& file) {
  const hid_t type = kind == Kind::kInt64    ? H5T_STD_I64LE
                     : kind == Kind::kDouble ? H5T_IEEE_F64LE
                                             : H5T_IEEE_F32LE;
  return {H5Tcopy(type), H5Tclose, "make a type", file};
}

Handle simple_space(const std::vector<int64_t>& shape, const std::string& file) {
  const std::vector<hsize_t> dims(shape.begin(), shape.end());
  if (dims.empty()) return {H5Screate(H5S_SCALAR), H5Sclose, "make a dataspace", file};
  return {H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr), H5Sclose,
          "make a dataspace", file};
}

Kind kind_of(hid_t type) {
  const std::size_t bytes = H5Tget_size(type);
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      return bytes == 8 && H5Tget_sign(type) == H5T_SGN_2 ? Kind::kInt64 : Kind::kOther;
    case H5T_FLOAT: return bytes == 8 ? Kind::kDouble : bytes == 4 ? Kind::kFloat : Kind::kOther;
    case H5T_STRING: return H5Tis_variable_str(type) == 0 ? Kind::kText : Kind::kOther;
    default: return Kind::kOther;
  }
}

std::vector<int64_t> shape_of(hid_t space, const std::string& what, const std::string& file) {
  const int rank = H5Sget_simple_extent_ndims(space);
  check(rank, what, file);
  std::vector<hsize_t> dims(static_cast<std::size_t>(rank));
  if (rank > 0) check(H5Sget_simple_extent_dims(space, dims.data(), nullptr), what, file);
  return {dims.begin(), dims.end()};
}

herr_t collect_name(hid_t, const char* name, const H5L_info_t*, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

}  // namespace

std::string kind_name(Kind kind) {
  switch (kind) {
    case Kind::kInt64: return "int64";
    case Kind::kDouble: return "float64";
    case Kind::kFloat: return "float32";
    case Kind::kText: return "text";
    case Kind::kOther: break;
  }
  return "other";
}

Dataset::Dataset(Handle handle, std::string name, std::string file)
    : handle_(std::move(handle)), name_(std::move(name)), file_(std::move(file)) {
  const std::string what = "read the description of " + name_;
  const Handle type(H5Dget_type(handle_.id()), H5Tclose, what, file_);
  const Handle space(H5Dget_space(handle_.id()), H5Sclose, what, file_);
  kind_ = kind_of(type.id());
  shape_ = shape_of(space.id(), what, file_);
  size_ = H5Sget_simple_extent_npoints(space.id());
  if (kind_ == Kind::kText) {
    if (size_ > 1) kind_ = Kind::kOther;
    size_ *= static_cast<int64_t>(H5Tget_size(type.id()));
  }
}

Handle Dataset::memory_type() const {
  const std::string what = "make a type for " + name_;
  switch (kind_) {
    case Kind::kInt64: return {H5Tcopy(H5T_NATIVE_INT64), H5Tclose, what, file_};
    case Kind::kDouble: return {H5Tcopy(H5T_NATIVE_DOUBLE), H5Tclose, what, file_};
    case Kind::kFloat: return {H5Tcopy(H5T_NATIVE_FLOAT), H5Tclose, what, file_};
    case Kind::kText: return {H5Dget_type(handle_.id()), H5Tclose, what, file_};
    case Kind::kOther: break;
  }
  throw IoError(name_ + " has a type that Hanse does not use", file_);
}

void Dataset::write(const void* data) {
  if (size_ == 0) return;
  const Handle type = memory_type();
  check(H5Dwrite(handle_.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, data), "write " + name_,
        file_);
}

void Dataset::read(void* data) const {
  const Handle type = memory_type();
  if (size_ == 0) return;
  check(H5Dread(handle_.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, data), "read " + name_,
        file_);
}

Handle Dataset::select(const Block& block) const {
  Handle space(H5Dget_space(handle_.id()), H5Sclose, "select a part of " + name_, file_);
  const hsize_t start[] = {static_cast<hsize_t>(block.row), static_cast<hsize_t>(block.column)};
  const hsize_t count[] = {static_cast<hsize_t>(block.rows), static_cast<hsize_t>(block.columns)};
  check(H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, start, nullptr, count, nullptr),
        "select a part of " + name_, file_);
  return space;
}

void Dataset::write_block(const Block& block, const float* data) {
  if (block.rows * block.columns == 0) return;
  const Handle memory = simple_space({block.rows, block.columns}, file_);
  const Handle space = select(block);
  check(H5Dwrite(handle_.id(), H5T_NATIVE_FLOAT, memory.id(), space.id(), H5P_DEFAULT, data),
        "write " + name_, file_);
}

void Dataset::read_block(const Block& block, float* data) const {
  if (block.rows * block.columns == 0) return;
  const Handle memory = simple_space({block.rows, block.columns}, file_);
  const Handle space = select(block);
  check(H5Dread(handle_.id(), H5T_NATIVE_FLOAT, memory.id(), space.id(), H5P_DEFAULT, data),
        "read " + name_, file_);
}

void Dataset::close() { check(handle_.reset(), "close " + name_, file_); }

File File::create(const std::string& path, int64_t user_block_bytes) {
  const Handle access = access_properties(path);
  const Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose, "create a property list", path);
  check(H5Pset_userblock(creation.id(), static_cast<hsize_t>(user_block_bytes)),
        "set the user block", path);
  return {Handle(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.id(), access.id()), H5Fclose,
                 "create the file", path),
          path};
}

File File::open_to_read(const std::string& path) {
  const Handle access = access_properties(path);
  return {
      Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose, "open the file", path),
      path};
}

File File::open_to_write(const std::string& path, const void* mpi_comm) {
  const Handle access = access_properties(path);
  if (mpi_comm) {
    check(H5Pset_fapl_mpio(access.id(), *static_cast<const MPI_Comm*>(mpi_comm), MPI_INFO_NULL),
          "set MPI-IO up", path);
  }
  return {Handle(H5Fopen(path.c_str(), H5F_ACC_RDWR, access.id()), H5Fclose,
                 mpi_comm ? "open the file through MPI-IO" : "open the file", path),
          path};
}

Dataset File::create(const std::string& name, const Handle& type, const Handle& space) {
  const std::string what = "create " + name;
  const Handle link(H5Pcreate(H5P_LINK_CREATE), H5Pclose, what, path_);
  check(H5Pset_create_intermediate_group(link.id(), 1), what, path_);
  const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, what, path_);
  check(H5Pset_layout(creation.id(), H5D_CONTIGUOUS), what, path_);
  check(H5Pset_alloc_time(creation.id(), H5D_ALLOC_TIME_EARLY), what, path_);
  check(H5Pset_fill_time(creation.id(), H5D_FILL_TIME_NEVER), what, path_);
  check(H5Pset_obj_track_times(creation.id(), false), what, path_);
  return {Handle(H5Dcreate2(handle_.id(), name.c_str(), type.id(), space.id(), link.id(),
                            creation.id(), H5P_DEFAULT),
                 H5Dclose, what, path_),
          name, path_};
}

Dataset File::create_dataset(const std::string& name, Kind kind,
                             const std::vector<int64_t>& shape) {
  return create(name, file_type(kind, path_), simple_space(shape, path_));
}

void File::write(Dataset dataset, const void* data) {
  dataset.write(data);
  dataset.close();
}

// A string of length zero does not exist in HDF5: an empty text has a null dataspace.
void File::write_text(const std::string& name, const std::string& text) {
  const Handle space(H5Screate(text.empty() ? H5S_NULL : H5S_SCALAR), H5Sclose, "make a dataspace",
                     path_);
  write(create(name, text_type(text.size(), path_), space), text.data());
}

Dataset File::dataset(const std::string& name) const {
  return {
      Handle(H5Dopen2(handle_.id(), name.c_str(), H5P_DEFAULT), H5Dclose, "open " + name, path_),
      name, path_};
}

bool File::contains(const std::string& name) const {
  return H5Lexists(handle_.id(), name.c_str(), H5P_DEFAULT) > 0;
}

std::vector<std::string> File::dataset_names(const std::string& group) const {
  std::vector<std::string> links;
  check(H5Lvisit_by_name(handle_.id(), group.c_str(), H5_INDEX_NAME, H5_ITER_INC, collect_name,
                         &links, H5P_DEFAULT),
        "list " + group, path_);
  std::vector<std::string> names;
  for (const auto& link : links) {
    const std::string name = (group == "/" ? "" : group) + "/" + link;
    const hid_t object = H5Oopen(handle_.id(), name.c_str(), H5P_DEFAULT);
    if (object < 0) continue;  // a link to nowhere
    const Handle owner(object, H5Oclose, "open " + name, path_);
    if (H5Iget_type(object) == H5I_DATASET) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void File::write_attribute(const std::string& name, int64_t value) {
  const std::string what = "write the attribute " + name;
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose, what, path_);
  Handle attribute(
      H5Acreate2(handle_.id(), name.c_str(), H5T_STD_I64LE, space.id(), H5P_DEFAULT, H5P_DEFAULT),
      H5Aclose, what, path_);
  check(H5Awrite(attribute.id(), H5T_NATIVE_INT64, &value), what, path_);
  check(attribute.reset(), what, path_);
}

int64_t File::read_attribute(const std::string& name) const {
  const std::string what = "read the attribute " + name;
  const Handle attribute(H5Aopen(handle_.id(), name.c_str(), H5P_DEFAULT), H5Aclose, what, path_);
  int64_t value = 0;
  check(H5Aread(attribute.id(), H5T_NATIVE_INT64, &value), what, path_);
  return value;
}

void File::close() { check(handle_.reset(), "close the file", path_); }

}  // namespace hanse::hdf5
