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

}  // namespace

std::string TffPlace::text() const {
  const auto client_text = fmt::format("{}, client '{}'", file->path(), file->name(client));
  return name.empty() ? client_text : client_text + "/" + name;
}

TffDataset::TffDataset(Handle handle, TffPlace place)
    : handle_(std::move(handle)), place_(std::move(place)) {
  type_ = element().type;
  const Handle space(H5Dget_space(handle_.id()), H5Sclose, "read the extents", where());
  std::vector<hsize_t> dims(
      static_cast<std::size_t>(std::max(0, H5Sget_simple_extent_ndims(space.id()))));
  if (!dims.empty()) {
    check(H5Sget_simple_extent_dims(space.id(), dims.data(), nullptr), "read the extents", where());
  }
  shape_.assign(dims.begin(), dims.end());
}

TffDataset::TffDataset(const PlainDataset& plain, const TffElement& element, TffPlace place)
    : in_place_(plain.data),
      in_place_element_(&element),
      place_(std::move(place)),
      type_(element.type),
      shape_(plain.extents) {}

// As the library says.
TffElement TffDataset::element() const {
  Handle type(H5Dget_type(handle_.id()), H5Tclose, "read the type", where());
  const bool variable = H5Tis_variable_str(type.id()) > 0;
  const auto bytes = variable ? PlainHdf5::kTextBytes : H5Tget_size(type.id());
  return {type_of(type.id()), std::move(type), variable, static_cast<int64_t>(bytes)};
}

int64_t TffDataset::size() const {
  return std::accumulate(shape_.begin(), shape_.end(), int64_t{1}, std::multiplies<>());
}

void TffDataset::read(hdf5::Id memory_type, void* out) const {
  if (size() == 0) return;
  if (handle_.id() < 0) return convert(memory_type, out);
  check(H5Dread(handle_.id(), memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out), "read the dataset",
        where());
}

void TffDataset::convert(hdf5::Id memory_type, void* out) const {
  if (H5Tequal(in_place_element_->handle.id(), memory_type) > 0) {
    std::memcpy(out, in_place_.data(), in_place_.size());
    return;
  }
  const auto n = static_cast<std::size_t>(size());
  const std::size_t bytes = n * H5Tget_size(memory_type);
  std::vector<std::byte> scratch(std::max(bytes, in_place_.size()));
  std::copy(in_place_.begin(), in_place_.end(), scratch.begin());
  check(H5Tconvert(in_place_element_->handle.id(), memory_type, n, scratch.data(), nullptr,
                   H5P_DEFAULT),
        "convert the dataset", where());
  std::memcpy(out, scratch.data(), bytes);
}

void TffDataset::read(int32_t* out) const { read(H5T_NATIVE_INT32, out); }
void TffDataset::read(float* out) const { read(H5T_NATIVE_FLOAT, out); }
void TffDataset::read(uint8_t* out) const { read(H5T_NATIVE_UINT8, out); }

std::vector<std::string> TffDataset::read_texts() const {
  if (handle_.id() >= 0) {
    const TffElement own = element();
    return own.variable ? read_variable_texts() : read_fixed_texts(own);
  }
  return in_place_element_->variable ? read_texts_in_place() : read_fixed_texts(*in_place_element_);
}

std::vector<std::string> TffDataset::read_variable_texts() const {
  const TffElement own = element();
  const Handle space(H5Dget_space(handle_.id()), H5Sclose, "read the extents", where());
  std::vector<char*> raw(static_cast<std::size_t>(size()));
  read(own.handle.id(), raw.data());
  std::vector<std::string> texts;
  for (const char* text : raw) texts.emplace_back(text ? text : "");
  H5Dvlen_reclaim(own.handle.id(), space.id(), H5P_DEFAULT, raw.data());
  return texts;
}

std::vector<std::string> TffDataset::read_texts_in_place() const {
  constexpr std::size_t kBytes = PlainHdf5::kTextBytes;
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < in_place_.size(); at += kBytes) {
    const auto found = place_.file->plain_.text(in_place_.subspan(at).first<kBytes>());
    if (!found)
      return TffClient(*place_.file, place_.client).open_dataset(place_.name).read_texts();
    texts.emplace_back(found->substr(0, found->find('\0')));
  }
  return texts;
}

std::vector<std::string> TffDataset::read_fixed_texts(const TffElement& element) const {
  const auto bytes = static_cast<std::size_t>(element.stored_bytes);
  std::string raw(static_cast<std::size_t>(size()) * bytes, '\0');
  read(element.handle.id(), raw.data());
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < raw.size(); at += bytes) {
    const std::string text = raw.substr(at, bytes);
    texts.push_back(text.substr(0, text.find('\0')));
  }
  return texts;
}

Handle TffClient::open() const {
  const TffPlace place{file_, client_, ""};
  Handle group(H5Oopen_by_addr(file_->file_.id(), file_->entry(client_).address), H5Oclose,
               "open the client", place.text());
  if (H5Iget_type(group.id()) == H5I_GROUP) return group;
  throw InvalidArgument("a client is a group of datasets", place.text(), kFormat);
}

bool TffClient::has(const std::string& name) const {
  return H5Lexists(open().id(), name.c_str(), H5P_DEFAULT) > 0;
}

std::vector<std::string> TffClient::names() const {
  std::vector<std::string> names;
  const auto add = [](hid_t, const char* name, const H5L_info_t*, void* all) -> herr_t {
    static_cast<std::vector<std::string>*>(all)->emplace_back(name);
    return 0;
  };
  check(H5Literate(open().id(), H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &names),
        "list the datasets", file_->path());
  return names;
}

TffDataset TffClient::dataset(const std::string& name) const {
  const auto plain = file_->plain_.find(file_->entry(client_).address, name);
  const TffElement* element = plain ? file_->element_of(*plain) : nullptr;
  if (element) return {*plain, *element, {file_, client_, name}};
  TffDataset dataset = open_dataset(name);
  if (plain) file_->learn(*plain, dataset);
  return dataset;
}

TffDataset TffClient::open_dataset(const std::string& name) const {
  const Handle group = open();
  const hid_t found = H5Dopen2(group.id(), name.c_str(), H5P_DEFAULT);
  if (found >= 0) {
    return {Handle(found, H5Dclose, "open the dataset", name), {file_, client_, name}};
  }
  throw InvalidArgument(fmt::format("there is no dataset '{}'", name),
                        TffPlace{file_, client_, ""}.text(),
                        fmt::format("the client has: {}", join(names(), ", ")));
}

TffFile::TffFile(const std::string& path) : path_(path), file_(open_file(path)), plain_(path) {
  if (H5Lexists(file_.id(), "examples", H5P_DEFAULT) <= 0) {
    throw InvalidArgument("there is no group /examples", path, kFormat);
  }
  list({H5Gopen2(file_.id(), "examples", H5P_DEFAULT), H5Gclose, "open /examples", path});
  if (entries_.empty()) throw InvalidArgument("there is no client in /examples", path, kFormat);
}

void TffFile::list(const Handle& examples) {
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
}

// Null: the library has not told yet what such elements are, or the sizes do not agree.
const TffElement* TffFile::element_of(const PlainDataset& plain) const {
  const auto known = std::find_if(plain_types_.begin(), plain_types_.end(), [&](const auto& type) {
    return std::equal(plain.type.begin(), plain.type.end(), type.description.begin(),
                      type.description.end());
  });
  if (known == plain_types_.end()) return nullptr;
  int64_t bytes = known->element->stored_bytes;
  for (const int64_t extent : plain.extents) {
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) return nullptr;
  }
  return bytes == static_cast<int64_t>(plain.data.size()) ? known->element.get() : nullptr;
}

// Elements of the same description are read in place from here on, if the library agrees.
void TffFile::learn(const PlainDataset& plain, const TffDataset& dataset) const {
  constexpr std::size_t kMostTypes = 16;
  const bool agrees = plain.extents == dataset.shape() &&
                      H5Dget_offset(dataset.handle_.id()) == plain.address &&
                      H5Dget_storage_size(dataset.handle_.id()) == plain.data.size();
  if (dataset.type() == TffType::kOther || !agrees || plain_types_.size() == kMostTypes) return;
  plain_types_.push_back(
      {{plain.type.begin(), plain.type.end()}, std::make_unique<TffElement>(dataset.element())});
}

}  // namespace hanse
