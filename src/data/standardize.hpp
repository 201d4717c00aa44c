// Features centred and scaled to unit deviation.
#pragma once

#include <string>

#include "hanse/data/dataset.hpp"
#include "hanse/data/partition.hpp"

namespace hanse {

// x <- (x - mean) / deviation, column by column, for every sample of the partition. Mean and
// population deviation (divided by n) are those of the training samples, so that test samples stay
// unseen: of the sample's own client (scope "client": what a hospital can do alone) or of all
// clients (scope "all": needs d means and deviations shared beforehand). A column that is constant
// there, as every column of a client with one training sample, is only centred. "none" changes
// nothing. Samples that belong to nobody are left alone.
// Throws InvalidArgument for an unknown scope, features stored as bytes, and a result that is not
// finite in float32 (a test value far outside a narrow column).
// Cost: two passes over the features, sums in float64.
void standardize(Dataset& dataset, const Partition& partition, const std::string& scope);

}  // namespace hanse
