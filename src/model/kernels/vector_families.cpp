#include "vector_families.hpp"

#include <string_view>

#include <cblas.h>

namespace hanse {

std::vector<Family> families() {
  std::vector<Family> found;
  if (has_avx512()) found.push_back(Family::kAvx512);
  if (has_avx2()) found.push_back(Family::kAvx2);
  found.push_back(Family::kPlain);
  return found;
}

Family fastest_family() {
  static const Family fastest = [] {
    const Family first = families().front();
    const bool haswell = std::string_view(openblas_get_corename()) == "Haswell";
    return haswell && first == Family::kAvx512 && has_avx2() ? Family::kAvx2 : first;
  }();
  return fastest;
}

const char* name_of(Family family) {
  if (family == Family::kAvx512) return "AVX-512";
  return family == Family::kAvx2 ? "AVX2" : "plain";
}

}  // namespace hanse
