#include "hanse/run/catalog.hpp"

#include <algorithm>

#include "hanse/kinds/families.hpp"
#include "protocols.hpp"

namespace hanse {

const std::vector<KindFamily>& catalog() {
  static const std::vector<KindFamily> families = [] {
    auto all = kind_families();
    all.push_back(protocol_family());
    return all;
  }();
  return families;
}

std::vector<std::string> known_names(const std::string& key) {
  const auto& families = catalog();
  const auto family = std::find_if(families.begin(), families.end(),
                                   [&](const auto& candidate) { return candidate.key == key; });
  return names_of(family->rows);
}

}  // namespace hanse
