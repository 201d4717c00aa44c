// Features that the format of a model's products cannot hold.
#pragma once

#include <string>

#include "hanse/data/federation.hpp"

namespace hanse {

// For a warning: the columns with whole numbers beyond 2^8 that are not exact in bfloat16, or with
// different numbers beyond it that become one, as the model gets them, after data.standardize and
// data.normalize: "column 'year': 120 of 120 numbers are not exact in bfloat16, 8 different ones
// become 2". Empty: none, or samples stored as bytes or tokens, or `may_be_tokens` and all features
// are whole numbers from 0. Of more than 2^26 values it looks at samples at equal distances.
// Throws InvalidArgument: a feature is finite in float32, and not in bfloat16.
std::string rounded_in_bfloat16(const Federation& federation, bool may_be_tokens);

}  // namespace hanse
