// Keys that several robust rules read.
#pragma once

#include "hanse/base/kind.hpp"
#include "hanse/rules/aggregation/aggregator_options.hpp"

namespace hanse::robust {

using Options = AggregatorOptions;

// Makes keys of the section.
inline KeyMaker<Options, std::identity> key() { return keys_of<Options>("aggregator"); }

inline Keys<Options> variant_key() {
  return key()("variant", &Options::variant,
               "paper: as printed; reference: as ByzFL runs it, with PyTorch; corrected: as paper");
}

inline Keys<Options> iterations_key() {
  return key()("iterations", &Options::iterations, between(1, 10000), "steps of the iteration");
}

}  // namespace hanse::robust
