// Guards for HDF5: against writes that fail, and against files that may be a stranger's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hanse::hdf5 {

// Writes as HDF5's own driver does, but hides failed writes from the library, which does not
// survive one: a file that cannot be flushed stays half closed in its tables, and the end of the
// program closes it once more and crashes.
// Makes the file access list `access` use the driver. *error gets the errno of the first write that
// fails, and no later one is tried: the file's contents are then worthless. Negative: the driver
// cannot be used. REQUIRES: a Section; *error is 0 and lives longer than the file is open.
int use_quiet_driver(int64_t access, int* error);

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
