#include "hdf5_limits.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <hdf5.h>

namespace hanse::hdf5 {

namespace {

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
