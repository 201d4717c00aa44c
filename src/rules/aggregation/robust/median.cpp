#include "columns.hpp"
#include "keys.hpp"
#include "rules.hpp"

namespace hanse::robust {

// The median of each coordinate (Yin et al. 2018).
RobustRule median() {
  return {.name = "median",
          .summary = "robust: the median of each coordinate",
          .keys = variant_key(),
          .bound = {2, 1, "Yin et al. 2018"},
          .column = [](const RobustOptions& o, int64_t, int64_t) -> ColumnRule {
            return {ColumnKind::kMedian, 0, takes_lower(o)};
          },
          .matrices = 4};
}

}  // namespace hanse::robust
