#include "columns.hpp"
#include "keys.hpp"
#include "rules.hpp"

namespace hanse::robust {

// The mean of the n - f values of each coordinate that are nearest to its median (Xie et al. 2018).
RobustRule meamed() {
  return {.name = "meamed",
          .summary = "robust: each coordinate's mean around its median (Xie et al. 2018)",
          .keys = variant_key(),
          .bound = {2, 1, "Xie et al. 2018"},
          .column = [](const RobustOptions& o, int64_t n, int64_t f) -> ColumnRule {
            return {ColumnKind::kNearMedian, n - f, takes_lower(o)};
          },
          .matrices = 4};
}

}  // namespace hanse::robust
