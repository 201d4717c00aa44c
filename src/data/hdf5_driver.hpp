// Writes HDF5 files as HDF5's own driver does, but hides failed writes from the library, which does
// not survive one: a file that cannot be flushed stays half closed in its tables, and the end of
// the program closes it once more and crashes.
#pragma once

#include <cstdint>

namespace hanse::hdf5 {

// Makes the file access list `access` use the driver. *error gets the errno of the first write that
// fails, and no later one is tried: the file's contents are then worthless. Negative: the driver
// cannot be used. REQUIRES: a Section; *error is 0 and lives longer than the file is open.
int use_quiet_driver(int64_t access, int* error);

}  // namespace hanse::hdf5
