#include "clients/tff_file.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <hdf5.h>

#include "hanse/base/options.hpp"
#include "hanse/base/text.hpp"

namespace hanse {

namespace {

using hdf5::check;
using hdf5::Handle;

constexpr const char* kFormat = "expected TensorFlow Federated's HDF5, /examples/CLIENT/NAME";

hdf5::File open_file(const std::string& path) {
  std::error_code code;
  if (std::filesystem::is_directory(path, code)) {
    throw InvalidArgument("expected a file, found a folder", path, kFormat);
  }
  return hdf5::File::open_to_read(path);
}

}  // namespace

std::vector<std::string> unread_datasets(const std::vector<std::string>& names,
                                         const std::vector<std::string>& used) {
  std::vector<std::string> unread;
  for (const std::string& name : names) {
    if (std::ranges::count(used, name) == 0) unread.push_back("dataset " + name);
  }
  return unread;
}

TffFile::TffFile(const std::string& path) : file_(open_file(path)) {
  if (!file_.contains("examples")) {
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
        "list the clients", path);
  std::ranges::sort(entries_, {}, &Entry::name);
  const auto bad = std::ranges::find_if_not(entries_, is_utf8, &Entry::name);
  if (bad != entries_.end()) {
    throw InvalidArgument(fmt::format("the name of the client '{}' is not UTF-8", bad->name), path,
                          "write the names as UTF-8; h5py does so with texts of Python");
  }
  if (entries_.empty()) throw InvalidArgument("there is no client in /examples", path, kFormat);
}

TffFile::~TffFile() {
  const hdf5::Section section;
  hdf5::File(std::move(file_));  // closes inside the section
}

std::string TffFile::where(int64_t client) const {
  return fmt::format("{}, client '{}'", file_.path(), name(client));
}

Handle TffFile::open(int64_t client) const {
  Handle group(H5Oopen_by_addr(file_.id(), entry(client).address), H5Oclose, "open the client",
               where(client));
  if (H5Iget_type(group.id()) == H5I_GROUP) return group;
  throw InvalidArgument("a client is a group of datasets", where(client), kFormat);
}

std::vector<std::string> TffFile::names(int64_t client) const {
  std::vector<std::string> names;
  const auto add = [](hid_t, const char* name, const H5L_info_t*, void* all) -> herr_t {
    static_cast<std::vector<std::string>*>(all)->emplace_back(name);
    return 0;
  };
  check(H5Literate(open(client).id(), H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &names),
        "list the datasets", file_.path());
  return names;
}

std::optional<hdf5::Dataset> TffFile::dataset(int64_t client, const std::string& name) const {
  const Handle group = open(client);
  const hid_t found = H5Dopen2(group.id(), name.c_str(), H5P_DEFAULT);
  if (found < 0) {
    const std::vector<std::string> others = names(client);
    if (others.empty()) return std::nullopt;
    throw InvalidArgument(fmt::format("there is no dataset '{}'", name), where(client),
                          fmt::format("the client has: {}", join(others, ", ")));
  }
  return hdf5::Dataset(Handle(found, H5Dclose, "open the dataset", name), "the dataset",
                       where(client) + "/" + name);
}

}  // namespace hanse
