// How HDF5 files are written: as HDF5's own driver does, but a write that fails is kept from the
// library. It does not survive one: a file that cannot be flushed stays half closed in its tables,
// and the end of the program closes it once more and crashes.
#pragma once

#include <cstdint>

namespace hanse::hdf5 {

// Makes the file access list `access` use the driver. Of the first write that fails, *error gets
// the errno, and no later one is tried: what the file holds then is nothing. Negative: the driver
// cannot be used. REQUIRES: a Section; *error is 0 and lives longer than the file is open.
int use_quiet_driver(int64_t access, int* error);

}  // namespace hanse::hdf5
