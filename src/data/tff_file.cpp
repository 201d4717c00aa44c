#include "tff_file.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <numeric>

#include <fmt/format.h>
#include <hdf5.h>

#include "hanse/base/error.hpp"
#include "hanse/base/options.hpp"

namespace hanse {

namespace {

using hdf5::check;
using hdf5::Handle;

constexpr const char* kFormat = "expected TensorFlow Federated's HDF5, /examples/CLIENT/NAME";

// Each client's headers are read once: a large cache of them only costs time to search.
constexpr std::size_t kCacheBytes = 64 * 1024;

Handle open_file(const std::string& path) {
  std::error_code code;
  if (std::filesystem::is_directory(path, code)) {
    throw InvalidArgument("expected a file, found a folder", path, kFormat);
  }
  const Handle access = hdf5::access_properties(path);
  H5AC_cache_config_t cache{};
  cache.version = H5AC__CURR_CACHE_CONFIG_VERSION;
  check(H5Pget_mdc_config(access.id(), &cache), "read the cache's settings", path);
  cache.set_initial_size = true;
  cache.initial_size = kCacheBytes;
  cache.min_size = kCacheBytes;
  cache.incr_mode = H5C_incr__off;
  cache.flash_incr_mode = H5C_flash_incr__off;
  cache.decr_mode = H5C_decr__off;
  check(H5Pset_mdc_config(access.id(), &cache), "set the cache up", path);
  return {H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose, "open the file", path};
}

std::vector<int64_t> shape_of(const Handle& dataset, const std::string& where) {
  const Handle space(H5Dget_space(dataset.id()), H5Sclose, "read the extents", where);
  std::vector<hsize_t> dims(
      static_cast<std::size_t>(std::max(0, H5Sget_simple_extent_ndims(space.id()))));
  if (!dims.empty()) {
    check(H5Sget_simple_extent_dims(space.id(), dims.data(), nullptr), "read the extents", where);
  }
  return {dims.begin(), dims.end()};
}

TffType type_of(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      return H5Tget_size(type) == 1 && H5Tget_sign(type) == H5T_SGN_NONE ? TffType::kByte
                                                                         : TffType::kInteger;
    case H5T_FLOAT: return TffType::kFloat;
    case H5T_STRING: return TffType::kText;
    default: return TffType::kOther;
  }
}

// As the library says.
TffElement element_of(const Handle& dataset, const std::string& where) {
  Handle type(H5Dget_type(dataset.id()), H5Tclose, "read the type", where);
  const bool variable = H5Tis_variable_str(type.id()) > 0;
  const auto bytes = variable ? PlainHdf5::kTextBytes : H5Tget_size(type.id());
  return {type_of(type.id()), std::move(type), variable, static_cast<int64_t>(bytes)};
}

std::string until_null(std::string_view text) {
  return std::string(text.substr(0, text.find('\0')));
}

}  // namespace

std::string TffDataset::where() const { return file_.where(client_) + "/" + name_; }

int64_t TffDataset::size() const {
  return std::accumulate(shape_.begin(), shape_.end(), int64_t{1}, std::multiplies<>());
}

void TffDataset::read(hdf5::Id memory_type, void* out) const {
  if (size() == 0) return;
  const hid_t stored = element_->handle.id();
  if (handle_.id() >= 0) {
    check(H5Dread(handle_.id(), memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out),
          "read the dataset", where());
  } else if (H5Tequal(stored, memory_type) > 0) {
    std::memcpy(out, in_place_.data(), in_place_.size());
  } else {
    const auto n = static_cast<std::size_t>(size());
    const std::size_t bytes = n * H5Tget_size(memory_type);
    std::vector<std::byte> scratch(std::max(bytes, in_place_.size()));
    std::copy(in_place_.begin(), in_place_.end(), scratch.begin());
    check(H5Tconvert(stored, memory_type, n, scratch.data(), nullptr, H5P_DEFAULT),
          "convert the dataset", where());
    std::memcpy(out, scratch.data(), bytes);
  }
}

void TffDataset::read(int32_t* out) const { read(H5T_NATIVE_INT32, out); }
void TffDataset::read(float* out) const { read(H5T_NATIVE_FLOAT, out); }
void TffDataset::read(uint8_t* out) const { read(H5T_NATIVE_UINT8, out); }

std::vector<std::string> TffDataset::read_texts() const {
  if (!element_->variable) return read_fixed_texts();
  if (handle_.id() >= 0) return read_variable_texts();
  constexpr std::size_t kBytes = PlainHdf5::kTextBytes;
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < in_place_.size(); at += kBytes) {
    const auto found = file_.plain_.text(in_place_.subspan(at).first<kBytes>());
    if (!found) return file_.open_dataset(client_, name_).read_texts();
    texts.push_back(until_null(*found));
  }
  return texts;
}

std::vector<std::string> TffDataset::read_variable_texts() const {
  const hid_t type = element_->handle.id();
  const Handle space(H5Dget_space(handle_.id()), H5Sclose, "read the extents", where());
  std::vector<char*> raw(static_cast<std::size_t>(size()));
  read(type, raw.data());
  std::vector<std::string> texts;
  for (const char* text : raw) texts.emplace_back(text ? text : "");
  H5Dvlen_reclaim(type, space.id(), H5P_DEFAULT, raw.data());
  return texts;
}

std::vector<std::string> TffDataset::read_fixed_texts() const {
  const auto bytes = static_cast<std::size_t>(element_->stored_bytes);
  std::string raw(static_cast<std::size_t>(size()) * bytes, '\0');
  read(element_->handle.id(), raw.data());
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < raw.size(); at += bytes) {
    texts.push_back(until_null(std::string_view(raw).substr(at, bytes)));
  }
  return texts;
}

TffFile::TffFile(const std::string& path) : path_(path), file_(open_file(path)), plain_(path) {
  if (H5Lexists(file_.id(), "examples", H5P_DEFAULT) <= 0) {
    throw InvalidArgument("there is no group /examples", path, kFormat);
  }
  const Handle examples(H5Gopen2(file_.id(), "examples", H5P_DEFAULT), H5Gclose, "open /examples",
                        path);
  const auto add = [](hid_t, const char* name, const H5L_info_t* link, void* all) -> herr_t {
    if (link->type == H5L_TYPE_HARD) {
      static_cast<std::vector<Entry>*>(all)->push_back({name, link->u.address});
    }
    return 0;
  };
  check(H5Literate(examples.id(), H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, add, &entries_),
        "list the clients", path_);
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
  if (entries_.empty()) throw InvalidArgument("there is no client in /examples", path, kFormat);
}

TffFile::~TffFile() {
  const hdf5::Section section;
  plain_types_.clear();
  file_.reset();
}

std::string TffFile::where(int64_t client) const {
  return fmt::format("{}, client '{}'", path_, name(client));
}

Handle TffFile::open(int64_t client) const {
  Handle group(H5Oopen_by_addr(file_.id(), entry(client).address), H5Oclose, "open the client",
               where(client));
  if (H5Iget_type(group.id()) == H5I_GROUP) return group;
  throw InvalidArgument("a client is a group of datasets", where(client), kFormat);
}

bool TffFile::has(int64_t client, const std::string& name) const {
  return H5Lexists(open(client).id(), name.c_str(), H5P_DEFAULT) > 0;
}

std::vector<std::string> TffFile::names(int64_t client) const {
  std::vector<std::string> names;
  const auto add = [](hid_t, const char* name, const H5L_info_t*, void* all) -> herr_t {
    static_cast<std::vector<std::string>*>(all)->emplace_back(name);
    return 0;
  };
  check(H5Literate(open(client).id(), H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &names),
        "list the datasets", path_);
  return names;
}

TffDataset TffFile::dataset(int64_t client, const std::string& name) const {
  const auto plain = plain_.find(entry(client).address, name);
  if (auto element = plain ? element_of(*plain) : nullptr) {
    TffDataset dataset(*this, client, name);
    dataset.in_place_ = plain->data;
    dataset.element_ = std::move(element);
    dataset.shape_ = plain->extents;
    return dataset;
  }
  TffDataset dataset = open_dataset(client, name);
  if (plain) learn(*plain, dataset);
  return dataset;
}

// Through the library, whatever else knows of it.
TffDataset TffFile::open_dataset(int64_t client, const std::string& name) const {
  const Handle group = open(client);
  const hid_t found = H5Dopen2(group.id(), name.c_str(), H5P_DEFAULT);
  if (found < 0) {
    throw InvalidArgument(fmt::format("there is no dataset '{}'", name), where(client),
                          fmt::format("the client has: {}", join(names(client), ", ")));
  }
  TffDataset dataset(*this, client, name);
  dataset.handle_ = Handle(found, H5Dclose, "open the dataset", name);
  dataset.element_ =
      std::make_shared<TffElement>(hanse::element_of(dataset.handle_, dataset.where()));
  dataset.shape_ = shape_of(dataset.handle_, dataset.where());
  return dataset;
}

// Null: the library has not said yet what such elements are, or the sizes do not agree.
std::shared_ptr<const TffElement> TffFile::element_of(const PlainDataset& plain) const {
  const auto known = std::find_if(plain_types_.begin(), plain_types_.end(), [&](const auto& type) {
    return std::ranges::equal(plain.type, type.description);
  });
  if (known == plain_types_.end()) return nullptr;
  int64_t bytes = known->element->stored_bytes;
  for (const int64_t extent : plain.extents) {
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) return nullptr;
  }
  return bytes == std::ssize(plain.data) ? known->element : nullptr;
}

// Elements of the same description are read in place from here on, if the library agrees.
void TffFile::learn(const PlainDataset& plain, const TffDataset& dataset) const {
  constexpr std::size_t kMostTypes = 16;
  const bool agrees = plain.extents == dataset.shape() &&
                      H5Dget_offset(dataset.handle_.id()) == plain.address &&
                      H5Dget_storage_size(dataset.handle_.id()) == plain.data.size();
  if (dataset.type() == TffType::kOther || !agrees || plain_types_.size() == kMostTypes) return;
  plain_types_.push_back({{plain.type.begin(), plain.type.end()}, dataset.element_});
}

}  // namespace hanse
