// The rows of a table that a trained model is to look at.
#pragma once

#include <memory>
#include <string>

#include "hanse/data/new_samples.hpp"

namespace hanse {

// As open_new_samples(), for a table.
std::unique_ptr<NewSamples> open_new_rows(const std::string& path, const FeatureRecord& record,
                                          const Preparation& own, UnknownLevels unknown);

}  // namespace hanse
