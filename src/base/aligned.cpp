#include "hanse/base/aligned.hpp"

#include <sys/mman.h>

namespace hanse {

void use_large_pages(void* data, std::size_t bytes) {
#ifdef MADV_HUGEPAGE
  madvise(data, bytes, MADV_HUGEPAGE);  // where it fails, pages stay small
#endif
}

void collect_large_pages(void* data, std::size_t bytes) {
#ifdef MADV_COLLAPSE
  madvise(data, bytes, MADV_COLLAPSE);
#elif defined(__linux__)
  madvise(data, bytes, 25);  // MADV_COLLAPSE of newer headers; an older system refuses it
#endif
}

std::shared_ptr<std::byte> zeroed_lines(int64_t bytes) {
  using Bytes = std::vector<std::byte, LineAllocator<std::byte>>;
  const auto memory = std::make_shared<Bytes>(static_cast<std::size_t>(bytes));
  return {memory, memory->data()};
}

}  // namespace hanse
