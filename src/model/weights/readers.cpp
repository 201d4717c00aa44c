#include "weights/readers.hpp"

#include <cstdint>
#include <filesystem>
#include <set>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/base/mapped_file.hpp"
#include "hanse/base/text.hpp"

namespace hanse {

FileBytes::FileBytes(const std::string& path) {
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  if (bytes == 0) throw InvalidArgument("the file is empty", path, kReadableWeights);
  memory_ = map_file(path, bytes, Access::kRead);
  view_ = {reinterpret_cast<const char*>(memory_.get()), to_index(bytes)};
}

void TensorsOfFile::add(const std::string& name, const std::string& place, StridedValues values) {
  const auto [first, is_new] = places_.emplace(place, name);
  if (is_new) {
    entries_.push_back({name, std::move(values)});
  } else if (first->second != name) {
    same_[name] = first->second;
  }
}

WeightFile TensorsOfFile::read() const {
  std::set<std::string> names;
  int64_t bytes = 0;
  for (const Entry& entry : entries_) {
    if (!names.insert(entry.name).second) {
      throw InvalidArgument(printable(entry.name) + " stands in the file twice", path_,
                            kReadableWeights);
    }
    if (__builtin_add_overflow(bytes, 4 * size_of(entry.values.shape), &bytes)) bytes = INT64_MAX;
  }
  require_memory(bytes, "its tensors take", path_, "");
  WeightFile file{.tensors = {}, .same = same_, .left_out = left_out_, .too_large = {}};
  for (const Entry& entry : entries_) {
    if (const double value = too_large_for_float(entry.values); value != 0) {
      file.too_large[entry.name] = value;
    }
    file.tensors.push_back({entry.name, entry.values.shape, floats_of(entry.values)});
  }
  return file;
}

}  // namespace hanse
