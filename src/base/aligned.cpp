#include "hanse/base/aligned.hpp"

#include <sys/mman.h>

namespace hanse {

void use_large_pages(void* data, std::size_t bytes) {
#ifdef MADV_HUGEPAGE
  madvise(data, bytes, MADV_HUGEPAGE);  // where it fails, pages stay small
#endif
}

}  // namespace hanse
