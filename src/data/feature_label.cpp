#include <fmt/format.h>

#include "hanse/data/federation.hpp"

namespace hanse {

std::string feature_label(const Federation& federation, int64_t feature) {
  const auto& record = federation.names().features;
  return record && record->has_columns()
             ? fmt::format("column '{}'", record->values[to_index(feature)].column)
             : fmt::format("feature {}", feature);
}

}  // namespace hanse
