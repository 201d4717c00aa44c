#include "arrays/hdf5_guard.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <hdf5.h>
#include <sys/stat.h>
#include <unistd.h>

#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

namespace hanse::hdf5 {

namespace {

// What an access list carries.
struct Settings {
  int* error;
};

// An open file; the library knows its first member.
struct OpenFile {
  H5FD_t known;
  int* error;
  int descriptor;
  haddr_t used;  // end of the bytes that the library has allotted
};

OpenFile& own(H5FD_t* file) { return *reinterpret_cast<OpenFile*>(file); }
const OpenFile& own(const H5FD_t* file) { return *reinterpret_cast<const OpenFile*>(file); }

H5FD_t* open_file(const char* path, unsigned flags, hid_t access, haddr_t) {
  const auto* settings = static_cast<const Settings*>(H5Pget_driver_info(access));
  int mode = (flags & H5F_ACC_RDWR) != 0 ? O_RDWR : O_RDONLY;
  if ((flags & H5F_ACC_TRUNC) != 0) mode |= O_TRUNC;
  if ((flags & H5F_ACC_CREAT) != 0) mode |= O_CREAT;
  if ((flags & H5F_ACC_EXCL) != 0) mode |= O_EXCL;
  const int descriptor = settings ? open(path, mode | O_CLOEXEC, 0644) : -1;
  if (descriptor < 0) return nullptr;
  return &(new OpenFile{{}, settings->error, descriptor, 0})->known;
}

herr_t close_file(H5FD_t* file) {
  close(own(file).descriptor);
  delete &own(file);
  return 0;
}

// Has the features of the library's own driver, and so makes the same files, but for the sieve: it
// would rewrite bytes beside a part of a dataset, which another process may have changed.
herr_t query(const H5FD_t*, unsigned long* features) {
  *features = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA |
              H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_POSIX_COMPAT_HANDLE |
              H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

haddr_t used(const H5FD_t* file, H5FD_mem_t) { return own(file).used; }

herr_t use(H5FD_t* file, H5FD_mem_t, haddr_t end) {
  own(file).used = end;
  return 0;
}

haddr_t end_of(const H5FD_t* file, H5FD_mem_t) {
  struct stat status {};
  return fstat(own(file).descriptor, &status) == 0 ? static_cast<haddr_t>(status.st_size)
                                                   : HADDR_UNDEF;
}

// Behind the end of the file there are zeros.
herr_t read_bytes(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t from, size_t bytes, void* data) {
  auto* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = pread(own(file).descriptor, to, bytes, static_cast<off_t>(from));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) {
      std::memset(to, 0, bytes);
      return 0;
    }
    to += got;
    from += static_cast<haddr_t>(got);
    bytes -= static_cast<size_t>(got);
  }
  return 0;
}

herr_t write_bytes(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t to, size_t bytes, const void* data) {
  const auto* from = static_cast<const char*>(data);
  int& error = *own(file).error;
  while (bytes > 0 && error == 0) {
    const ssize_t wrote = pwrite(own(file).descriptor, from, bytes, static_cast<off_t>(to));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      error = wrote < 0 ? errno : EIO;
      break;
    }
    from += wrote;
    to += static_cast<haddr_t>(wrote);
    bytes -= static_cast<size_t>(wrote);
  }
  return 0;
}

// The file ends with its last allotted byte.
herr_t truncate_file(H5FD_t* file, hid_t, hbool_t) {
  OpenFile& open = own(file);
  if (*open.error != 0 || end_of(file, H5FD_MEM_DEFAULT) == open.used) return 0;
  if (ftruncate(open.descriptor, static_cast<off_t>(open.used)) != 0) *open.error = errno;
  return 0;
}

hid_t register_driver() {
  static H5FD_class_t driver = {};
#if H5_VERSION_GE(1, 13, 0)
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(400);  // a number that no other driver has
#endif
  driver.name = "quiet";
  driver.maxaddr = static_cast<haddr_t>(INT64_MAX);
  driver.fc_degree = H5F_CLOSE_WEAK;
  driver.fapl_size = sizeof(Settings);
  driver.open = open_file;
  driver.close = close_file;
  driver.query = query;
  driver.get_eoa = used;
  driver.set_eoa = use;
  driver.get_eof = end_of;
  driver.read = read_bytes;
  driver.write = write_bytes;
  driver.truncate = truncate_file;
  constexpr H5FD_mem_t kFreeLists[] = H5FD_FLMAP_DICHOTOMY;
  std::ranges::copy(kFreeLists, driver.fl_map);
  return H5FDregister(&driver);
}

constexpr std::array kOwnFilters = {H5Z_FILTER_DEFLATE, H5Z_FILTER_SHUFFLE, H5Z_FILTER_FLETCHER32,
                                    H5Z_FILTER_SZIP,    H5Z_FILTER_NBIT,    H5Z_FILTER_SCALEOFFSET};
constexpr double kMostPacked = 1032;  // bytes that deflate makes of one

std::optional<std::string> creation_fault(hid_t creation) {
  if (H5Pget_external_count(creation) > 0 || H5Pget_layout(creation) == H5D_VIRTUAL) {
    return "lies in other files";
  }
  for (int i = 0; i < H5Pget_nfilters(creation); ++i) {
    unsigned flags = 0, config = 0;
    std::size_t values = 0;
    const auto filter = H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &values, nullptr,
                                       0, nullptr, &config);
    if (std::ranges::find(kOwnFilters, filter) == kOwnFilters.end()) {
      return fmt::format("needs the filter {}, a plugin, which is foreign code", filter);
    }
  }
  return std::nullopt;
}

}  // namespace

int use_quiet_driver(int64_t access, int* error) {
  static const hid_t driver = register_driver();
  const Settings settings{error};
  return H5Pset_driver(access, driver, &settings);
}

void close_ways_out() {
  static const bool closed = H5Lunregister(H5L_TYPE_EXTERNAL) >= 0 && H5PLset_loading_state(0) >= 0;
  static_cast<void>(closed);
}

bool is_countable(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  return std::ranges::all_of(shape, [&](int64_t extent) {
    return extent >= 0 &&
           !__builtin_mul_overflow(elements, std::max<int64_t>(extent, 1), &elements);
  });
}

std::optional<std::string> storage_fault(int64_t dataset, int64_t elements,
                                         std::size_t bytes_each) {
  if (bytes_each == 0) return "has elements without a size";
  const hid_t file = H5Iget_file_id(dataset);
  unsigned intent = 0;
  hsize_t file_bytes = 0;
  H5Fget_intent(file, &intent);
  H5Fget_filesize(file, &file_bytes);
  H5Fclose(file);
  if (intent != H5F_ACC_RDONLY) return std::nullopt;  // it is being written
  const haddr_t offset = H5Dget_offset(dataset);
  const bool in_one_piece = offset != HADDR_UNDEF;
  if (!in_one_piece) {
    const hid_t creation = H5Dget_create_plist(dataset);
    const auto fault = creation_fault(creation);
    H5Pclose(creation);
    if (fault) return fault;
  }
  const double promised = static_cast<double>(elements) * static_cast<double>(bytes_each);
  const auto stored = static_cast<double>(H5Dget_storage_size(dataset));
  const double behind =
      static_cast<double>(file_bytes) - (in_one_piece ? static_cast<double>(offset) : 0);
  const double held = std::clamp(behind, 0.0, stored);
  if (promised <= held * (in_one_piece ? 1 : kMostPacked)) return std::nullopt;
  return fmt::format("promises {} elements, and the file holds {} bytes of it", elements, held);
}

}  // namespace hanse::hdf5
