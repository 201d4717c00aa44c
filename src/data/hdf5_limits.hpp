// Refusals of HDF5 files, which may be a stranger's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hanse::hdf5 {

// Call it once, before the first file is opened: then no link leads into another file, and no
// plugin is loaded, which would be foreign code. REQUIRES: the library's lock.
void close_ways_out();

// Can the elements be counted, also those of an empty part? The library multiplies blindly.
bool is_countable(const std::vector<int64_t>& shape);

// The reason why a dataset of so many elements must not be read ("lies in other files"): it lies
// there, needs a filter that the library lacks, has elements without a size, or promises more of
// them than the file can hold. Nothing when the file is open for writing. Cost: some microseconds.
std::optional<std::string> storage_fault(int64_t dataset, int64_t elements, std::size_t bytes_each);

}  // namespace hanse::hdf5
