#include "rules.hpp"

namespace hanse::robust {

// The mean of each coordinate without its f least and f largest values (Yin et al. 2018).
RobustRule trimmed_mean() {
  return {.name = "trimmed-mean",
          .summary =
              "robust: each coordinate's mean without its f least and f largest (Yin et al. "
              "2018)",
          .bound = {2, 1, "Yin et al. 2018"},
          .column = [](const RobustOptions&, int64_t, int64_t f) -> ColumnRule {
            return {ColumnKind::kTrimmedMean, f, false};
          },
          .matrices = 4};
}

}  // namespace hanse::robust
