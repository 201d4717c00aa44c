// Client-level differential privacy of a round's sum: what the sum of updates needs of this folder.
//
// A round sums integers in steps of a lattice. With L the lattice, V the variance of the noise and
// n the expected participants, fixed and public:
//   1. before the first update is added, each rank adds the noise of its blocks to its empty sum
//      (add_noise), so that no variable ever has the plain total;
//   2. each participant adds the integers of clip_to_lattice(); with distributed noise, also those
//      of its share of the noise, and the ranks add the shares of those who did not come;
//   3. the ranks' integers are added, modulo 2^64;
//   4. the server steps along step_of_sum() times the sum: never by the realised number.
// The accountant (accountant.hpp) pays for the round whoever took part. With a clip that adapts
// (adaptive_clip.hpp), a sum of bits with noise of its own goes beside. With correlated noise
// (correlation.hpp), ranks keep their own sums of earlier rounds, and add combinations of them.
#pragma once

#include <cstdint>
#include <span>

#include "hanse/rules/privacy/accountant.hpp"
#include "hanse/rules/privacy/clipping.hpp"
#include "hanse/rules/privacy/noise.hpp"

namespace hanse {

// Adds the noise of the blocks of `rank`, those with block mod ranks = rank, to the entries of a
// sum from `begin` on, with the key's streams. The noise of an entry is the same in whatever parts
// the sum is given, and the sum over the ranks the same on any number of them. Cost: the samples of
// these entries, and of a group at most before the first.
void add_noise(const Noise& noise, const CipherKey& key, int64_t rank, int64_t ranks, int64_t begin,
               std::span<int64_t> entries);

// The most participants of a round; of Poisson draws, but with probability 2^-60.
int64_t largest_cohort(const PrivacyTerms& terms);

// Throws InvalidArgument unless the sum of `cohort` updates with its noise stays within 2^62 units
// of 2^-44, where float64 and the exact sum read it: noise is below 40 deviations but with
// probability 2^-1150. Privacy does not depend on it: what wraps is private, too.
void check_range(int64_t cohort, const Lattice& lattice, int64_t variance);

// What multiplies the integers of a sum to give the mean of the updates.
double step_of_sum(const Lattice& lattice, double expected);

}  // namespace hanse
