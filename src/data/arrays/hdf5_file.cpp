#include "hanse/data/hdf5_file.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <string_view>

#include <fmt/format.h>
#include <hdf5.h>

#include "arrays/hdf5_guard.hpp"
#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"

namespace hanse::hdf5 {

static_assert(std::is_same_v<Status, herr_t> && sizeof(Id) == sizeof(hid_t));

namespace {

constexpr int64_t kLongestAttribute = 1 << 16;  // bytes of a text; no attribute of ours has more

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

// Walking upward, the first record is the innermost one.
herr_t take_first(unsigned n, const H5E_error2_t* record, void* text) {
  if (n == 0 && record->desc) *static_cast<std::string*>(text) = record->desc;
  return 0;
}

// The file drivers hide the system's words in a long list of "name = value".
std::string system_message(const std::string& description) {
  const std::string key = "error message = '";
  const auto begin = description.find(key);
  if (begin == std::string::npos) return description;
  const auto end = description.find('\'', begin + key.size());
  return description.substr(begin + key.size(), end - begin - key.size());
}

// Access to a file without locks: files are written under a temporary name and renamed, so that a
// lock adds nothing, and fails on file systems that have none.
Handle access_properties(const std::string& file) {
  Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "create a property list", file);
#if H5_VERSION_GE(1, 10, 7)
  check(H5Pset_file_locking(access.id(), false, true), "switch file locking off", file);
#endif
  return access;
}

// Headers are mostly read once: a large cache of them only costs time to search.
void keep_cache_small(const Handle& access, const std::string& file) {
  H5AC_cache_config_t cache{};
  cache.version = H5AC__CURR_CACHE_CONFIG_VERSION;
  check(H5Pget_mdc_config(access.id(), &cache), "read the cache's settings", file);
  cache.set_initial_size = true;
  cache.initial_size = cache.min_size = 64 * 1024;  // bytes
  cache.incr_mode = H5C_incr__off;
  cache.flash_incr_mode = H5C_flash_incr__off;
  cache.decr_mode = H5C_decr__off;
  check(H5Pset_mdc_config(access.id(), &cache), "set the cache up", file);
}

// The type of numbers in memory and in the file.
hid_t number_type(const Type& type) {
  static_assert(std::endian::native == std::endian::little, "files have the memory's order");
  if (type.kind == Kind::kFloat) return type.bytes == 8 ? H5T_IEEE_F64LE : H5T_IEEE_F32LE;
  switch (type.bytes) {
    case 8: return H5T_STD_I64LE;
    case 4: return H5T_STD_I32LE;
    case 2: return H5T_STD_U16LE;
    default: return H5T_STD_U8LE;
  }
}

Type type_of(hid_t type) {
  const auto bytes = static_cast<int64_t>(H5Tget_size(type));
  switch (H5Tget_class(type)) {
    case H5T_INTEGER: return {Kind::kInteger, bytes, H5Tget_sign(type) == H5T_SGN_2};
    case H5T_FLOAT: return {Kind::kFloat, bytes};
    case H5T_STRING: return {Kind::kText, H5Tis_variable_str(type) > 0 ? 0 : bytes};
    default: return {};
  }
}

Handle text_type(std::size_t bytes, const std::string& file) {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose, "make a type", file);
  check(H5Tset_size(type.id(), std::max<std::size_t>(bytes, 1)), "size a text", file);
  return type;
}

// The type of a dataset of texts: shorter ones end in zero bytes.
Handle padded_type(std::size_t bytes, const std::string& file) {
  Handle type = text_type(bytes, file);
  check(H5Tset_strpad(type.id(), H5T_STR_NULLPAD), "pad a text", file);
  check(H5Tset_cset(type.id(), H5T_CSET_UTF8), "encode a text", file);
  return type;
}

Handle simple_space(const std::vector<int64_t>& shape, const std::string& file) {
  const std::vector<hsize_t> dims(shape.begin(), shape.end());
  if (dims.empty()) return {H5Screate(H5S_SCALAR), H5Sclose, "make a dataspace", file};
  return {H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr), H5Sclose,
          "make a dataspace", file};
}

herr_t collect_name(hid_t, const char* name, const H5L_info_t*, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

// The reader has room for one element.
void require_one(const Handle& attribute, const std::string& name, const std::string& file) {
  const Handle space(H5Aget_space(attribute.id()), H5Sclose, "read the attribute " + name, file);
  if (H5Sget_simple_extent_npoints(space.id()) == 1) return;
  throw IoError(fmt::format("the attribute {} has not one element", name), file);
}

}  // namespace

Section::Section() : lock_(library_mutex()) {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  close_ways_out();
}

void check(Id status, const std::string& what, const std::string& file) {
  if (status >= 0) return;
  std::string reason = "unknown reason";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &reason);
  H5Eclear2(H5E_DEFAULT);
  throw IoError("cannot " + what + ": " + system_message(reason), file);
}

Dataset::Dataset(Handle handle, std::string name, std::string file)
    : handle_(std::move(handle)), name_(std::move(name)), file_(std::move(file)) {
  const Handle stored = stored_type();
  type_ = type_of(stored.id());
  const Handle extents = space();
  const int rank = H5Sget_simple_extent_ndims(extents.id());
  check(rank, "read the description of " + name_, file_);
  std::vector<hsize_t> dims(static_cast<std::size_t>(rank));
  H5Sget_simple_extent_dims(extents.id(), dims.data(), nullptr);
  shape_.assign(dims.begin(), dims.end());
  if (!is_countable(shape_)) throw IoError(name_ + " has more elements than can be counted", file_);
  size_ = H5Sget_simple_extent_npoints(extents.id());
  if (size_ == 0) return;
  if (const auto fault = storage_fault(handle_.id(), size_, H5Tget_size(stored.id()))) {
    throw IoError(name_ + " " + *fault, file_);
  }
}

Handle Dataset::stored_type() const {
  return {H5Dget_type(handle_.id()), H5Tclose, "read the description of " + name_, file_};
}

Handle Dataset::space() const {
  return {H5Dget_space(handle_.id()), H5Sclose, "read the description of " + name_, file_};
}

bool Dataset::is_stored_as(const Type& type) const {
  return H5Tequal(stored_type().id(), number_type(type)) > 0;
}

int64_t Dataset::offset() const {
  const haddr_t offset = H5Dget_offset(handle_.id());
  return offset == HADDR_UNDEF ? -1 : static_cast<int64_t>(offset);
}

void Dataset::write(const void* data) {
  if (size_ > 0) {
    check(H5Dwrite(handle_.id(), stored_type().id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, data),
          "write " + name_, file_);
  }
  close();
}

void Dataset::read(const Type& type, void* data) const { read(number_type(type), data); }

void Dataset::read(Id memory_type, void* data) const {
  if (size_ == 0) return;
  check(H5Dread(handle_.id(), memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), "read " + name_,
        file_);
}

void Dataset::require_room(std::size_t bytes_each) const {
  require_memory(size_ * static_cast<int64_t>(bytes_each), name_ + " takes", file_,
                 "is the file corrupt?");
}

std::string Dataset::text() const {
  require_room(static_cast<std::size_t>(type_.bytes));
  std::string text(static_cast<std::size_t>(size_ * type_.bytes), '\0');
  read(stored_type().id(), text.data());
  return text;
}

std::vector<std::string> Dataset::texts() const {
  std::vector<std::string> texts;
  if (const auto bytes = static_cast<std::size_t>(type_.bytes); bytes > 0) {
    const std::string all = text();
    for (std::size_t at = 0; at < all.size(); at += bytes) {
      const std::string_view padded = std::string_view(all).substr(at, bytes);
      texts.emplace_back(padded.substr(0, padded.find('\0')));
    }
    return texts;
  }
  const Handle type = stored_type();
  require_room(sizeof(char*));
  std::vector<char*> raw(static_cast<std::size_t>(size_));
  read(type.id(), raw.data());
  for (const char* text : raw) texts.emplace_back(text ? text : "");
  H5Dvlen_reclaim(type.id(), space().id(), H5P_DEFAULT, raw.data());
  return texts;
}

Handle Dataset::select(const Block& block) const {
  Handle part = space();
  const hsize_t start[] = {static_cast<hsize_t>(block.row), static_cast<hsize_t>(block.column)};
  const hsize_t count[] = {static_cast<hsize_t>(block.rows), static_cast<hsize_t>(block.columns)};
  check(H5Sselect_hyperslab(part.id(), H5S_SELECT_SET, start, nullptr, count, nullptr),
        "select a part of " + name_, file_);
  return part;
}

void Dataset::write_block(const Block& block, const float* data) {
  if (block.rows * block.columns == 0) return;
  const Handle memory = simple_space({block.rows, block.columns}, file_);
  check(
      H5Dwrite(handle_.id(), H5T_NATIVE_FLOAT, memory.id(), select(block).id(), H5P_DEFAULT, data),
      "write " + name_, file_);
}

void Dataset::read_block(const Block& block, float* data) const {
  if (block.rows * block.columns == 0) return;
  const Handle memory = simple_space({block.rows, block.columns}, file_);
  check(H5Dread(handle_.id(), H5T_NATIVE_FLOAT, memory.id(), select(block).id(), H5P_DEFAULT, data),
        "read " + name_, file_);
}

void Dataset::close() { check(handle_.reset(), "close " + name_, file_); }

File File::create(const std::string& path, int64_t user_block_bytes, int64_t alignment) {
  const Handle access = access_properties(path);
  check(H5Pset_alignment(access.id(), 1, static_cast<hsize_t>(alignment)), "align the data", path);
  const Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose, "create a property list", path);
  check(H5Pset_userblock(creation.id(), static_cast<hsize_t>(user_block_bytes)),
        "set the user block", path);
  auto error = std::make_unique<int>(0);
  check(use_quiet_driver(access.id(), error.get()), "set the driver up", path);
  return {Handle(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.id(), access.id()), H5Fclose,
                 "create the file", path),
          path, std::move(error)};
}

File File::open_to_read(const std::string& path) {
  const Handle access = access_properties(path);
  keep_cache_small(access, path);
  return {
      Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose, "open the file", path),
      path, nullptr};
}

File File::open_to_write(const std::string& path) {
  const Handle access = access_properties(path);
  auto error = std::make_unique<int>(0);
  check(use_quiet_driver(access.id(), error.get()), "set the driver up", path);
  return {Handle(H5Fopen(path.c_str(), H5F_ACC_RDWR, access.id()), H5Fclose, "open the file", path),
          path, std::move(error)};
}

Dataset File::create(const std::string& name, Id type, const Handle& space) {
  const std::string what = "create " + name;
  const Handle link(H5Pcreate(H5P_LINK_CREATE), H5Pclose, what, path_);
  check(H5Pset_create_intermediate_group(link.id(), 1), what, path_);
  const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, what, path_);
  check(H5Pset_layout(creation.id(), H5D_CONTIGUOUS), what, path_);
  check(H5Pset_alloc_time(creation.id(), H5D_ALLOC_TIME_EARLY), what, path_);
  check(H5Pset_fill_time(creation.id(), H5D_FILL_TIME_NEVER), what, path_);
  check(H5Pset_obj_track_times(creation.id(), false), what, path_);
  return {Handle(H5Dcreate2(handle_.id(), name.c_str(), type, space.id(), link.id(), creation.id(),
                            H5P_DEFAULT),
                 H5Dclose, what, path_),
          name, path_};
}

Dataset File::create_dataset(const std::string& name, const Type& type,
                             const std::vector<int64_t>& shape) {
  return create(name, number_type(type), simple_space(shape, path_));
}

// A string of length zero does not exist in HDF5: an empty text has a null dataspace.
void File::write(const std::string& name, const std::string& text) {
  const Handle space(H5Screate(text.empty() ? H5S_NULL : H5S_SCALAR), H5Sclose, "make a dataspace",
                     path_);
  create(name, padded_type(text.size(), path_).id(), space).write(text.data());
}

void File::write(const std::string& name, const std::vector<std::string>& texts) {
  std::size_t longest = 1;
  for (const std::string& text : texts) longest = std::max(longest, text.size());
  std::string all;
  for (const std::string& text : texts) all.append(text).append(longest - text.size(), '\0');
  create(name, padded_type(longest, path_).id(), simple_space({std::ssize(texts)}, path_))
      .write(all.data());
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

void File::write_attribute(const std::string& name, Id type, const void* value) {
  const std::string what = "write the attribute " + name;
  const Handle space = simple_space({}, path_);
  Handle attribute(
      H5Acreate2(handle_.id(), name.c_str(), type, space.id(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
      what, path_);
  check(H5Awrite(attribute.id(), type, value), what, path_);
  check(attribute.reset(), what, path_);
}

void File::write_attribute(const std::string& name, int64_t value) {
  write_attribute(name, H5T_STD_I64LE, &value);
}

void File::write_attribute(const std::string& name, const std::string& text) {
  write_attribute(name, text_type(text.size(), path_).id(), text.data());
}

bool File::has_attribute(const std::string& name) const {
  return H5Aexists(handle_.id(), name.c_str()) > 0;
}

Handle File::attribute(const std::string& name) const {
  return {H5Aopen(handle_.id(), name.c_str(), H5P_DEFAULT), H5Aclose, "read the attribute " + name,
          path_};
}

int64_t File::read_attribute(const std::string& name) const {
  const Handle own = attribute(name);
  int64_t value = 0;
  require_one(own, name, path_);
  check(H5Aread(own.id(), H5T_NATIVE_INT64, &value), "read the attribute " + name, path_);
  return value;
}

std::optional<std::string> File::read_text_attribute(const std::string& name) const {
  const Handle own = attribute(name);
  const Handle stored(H5Aget_type(own.id()), H5Tclose, "read the attribute " + name, path_);
  const Type type = type_of(stored.id());
  if (type.kind != Kind::kText || type.bytes == 0 || type.bytes > kLongestAttribute) {
    return std::nullopt;
  }
  require_one(own, name, path_);
  std::string text(static_cast<std::size_t>(type.bytes), '\0');
  check(H5Aread(own.id(), stored.id(), text.data()), "read the attribute " + name, path_);
  return text.substr(0, text.find('\0'));
}

void File::close() {
  check(handle_.reset(), "close the file", path_);
  if (!error_ || *error_ == 0) return;
  errno = *error_;
  throw IoError("cannot write: " + errno_text(), path_);
}

}  // namespace hanse::hdf5
