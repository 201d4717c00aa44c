// What a job needs to know of an aggregator before it is made.
#pragma once

namespace hanse {

struct AggregatorTraits {
  bool plain_mean = false;    // weights clients by their shares alone
  bool scaled_draws = false;  // a draw counts as one of uniform draws where a trace has no weights
};

}  // namespace hanse
