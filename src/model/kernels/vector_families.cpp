#include "vector_families.hpp"

#include <string_view>

#include <cblas.h>

namespace hanse {

std::vector<VectorFamily> families() {
  std::vector<VectorFamily> found;
  if (has_avx512()) found.push_back(VectorFamily::kAvx512);
  if (has_avx2()) found.push_back(VectorFamily::kAvx2);
  found.push_back(VectorFamily::kPlain);
  return found;
}

VectorFamily fastest_family() {
  static const VectorFamily fastest = [] {
    const VectorFamily first = families().front();
    const bool haswell = std::string_view(openblas_get_corename()) == "Haswell";
    return haswell && first == VectorFamily::kAvx512 && has_avx2() ? VectorFamily::kAvx2 : first;
  }();
  return fastest;
}

const char* name_of(VectorFamily family) {
  if (family == VectorFamily::kAvx512) return "AVX-512";
  return family == VectorFamily::kAvx2 ? "AVX2" : "plain";
}

}  // namespace hanse
