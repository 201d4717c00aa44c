/* The streams of libc under the names that the static HDF5 knows them by (src/cmake/hdf5.cmake). */
#include <stdio.h>

__attribute__((visibility("hidden"))) FILE* hanse_hdf5_stdout;
__attribute__((visibility("hidden"))) FILE* hanse_hdf5_stderr;

__attribute__((constructor)) static void take_streams(void) {
  hanse_hdf5_stdout = stdout;
  hanse_hdf5_stderr = stderr;
}
