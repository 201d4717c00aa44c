// The robust rules, a file each. A new one is declared and listed here.
#pragma once

#include "hanse/rules/aggregation/robust_rule.hpp"

namespace hanse::robust {

RobustRule mean();  // fedavg

RobustRule krum();
RobustRule multi_krum();
RobustRule mda();
RobustRule monna();
RobustRule geometric_median();
RobustRule centered_clipping();
RobustRule fltrust();
RobustRule smea();
RobustRule caf();
RobustRule median();
RobustRule trimmed_mean();
RobustRule meamed();
RobustRule bulyan();

// In the order of `hanse list`.
inline constexpr RobustRule (*kRules[])() = {
    krum,   multi_krum,   mda,    monna, geometric_median, centered_clipping, fltrust, smea, caf,
    median, trimmed_mean, meamed, bulyan};

}  // namespace hanse::robust
