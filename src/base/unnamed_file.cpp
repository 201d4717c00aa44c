#include "hanse/base/unnamed_file.hpp"

#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <unistd.h>

#include "hanse/base/error.hpp"

namespace hanse {

int open_unnamed_file(const std::string& folder, const std::string& what) {
  std::string path = folder + "/hanse-XXXXXX";
  const int file = mkostemp(path.data(), O_CLOEXEC);
  if (file < 0) throw IoError("cannot create " + what + ": " + errno_text(), folder);
  unlink(path.c_str());
  return file;
}

bool reserve_blocks(int file, int64_t begin, int64_t bytes) {
  int code = 0;
  do {
    code = posix_fallocate(file, begin, bytes);
  } while (code == EINTR);
  errno = code;
  return code == 0;
}

}  // namespace hanse
