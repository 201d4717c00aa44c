// Draws of clients from an urn, and the weights that make an unbiased sum of them.
#pragma once

#include <cstdint>
#include <span>

#include "hanse/base/random.hpp"
#include "hanse/rules/sampling/sampler.hpp"
#include "urn.hpp"

namespace hanse {

// K draws by the law from the available, and the weights that make an unbiased sum of them: with
// replacement N/(K q); without, the j-th (1/p_(j) + K - j)/K, p_(j) its probability among those not
// yet drawn (Zhao et al. 2025, Algorithm 7, telescoped). Stops early, without replacement, when
// nobody with mass is left. Everyone when not more than K of them are there.
// Cost: O(K (width log rows + log M)).
Draw draw_from(Urn& urn, int64_t count, bool replacement, const UrnLaw& law, RandomStream& stream);

// The same of given clients. Throws InvalidArgument when the law could not have drawn them.
Draw impose_on(Urn& urn, std::span<const int64_t> draws, int64_t count, bool replacement,
               const UrnLaw& law);

}  // namespace hanse
