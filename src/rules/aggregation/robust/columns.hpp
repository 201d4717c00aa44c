// Rules by columns.
#pragma once

#include "hanse/rules/aggregation/robust_rule.hpp"

namespace hanse::robust {

// Is the median of an even number of values the lower of the two in the middle?
inline bool takes_lower(const RobustOptions& o) { return o.variant == Variant::kReference; }

}  // namespace hanse::robust
