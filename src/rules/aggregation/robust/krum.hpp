// Krum's scores.
#pragma once

#include <cstdint>
#include <vector>

#include "hanse/rules/aggregation/gram_view.hpp"
#include "hanse/rules/variant.hpp"

namespace hanse::robust {

// score_i of each of `among`: the sum of the squared distances of u_i to its nearest others in
// `among`, m - f - 2 of m in the paper (Blanchard et al. 2017), and m - f - 1 in the `reference`
// form, ByzFL's. The forms may choose differently. REQUIRES: 2f < m. At least one neighbour counts
// where there is one, as in Flower. Cost: O(m^2 log m).
std::vector<double> krum_scores(const GramView& gram, const std::vector<std::size_t>& among,
                                int64_t f, Variant variant);
std::vector<double> krum_scores(const GramView& gram, int64_t f, Variant variant);  // of all rows

// How far the best row leads: (second least score - least) / least; 0 of a single row or of equal
// scores, infinity where only the least is 0.
double krum_margin(const std::vector<double>& scores);

}  // namespace hanse::robust
