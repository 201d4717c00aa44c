// The line at the start of a run that describes the data.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "client_source.hpp"

namespace hanse {

// "1 user", "2 users".
std::string counted(int64_t count, const std::string& one, const std::string& many);

// "data: 120 samples of 4 clients, 3 classes: cat, dog, horse", and behind it any oddities: classes
// without a sample, and parts of the source that were not read. `labels` of all samples of the
// layout; empty: there are targets. Cost: a pass over the labels.
std::string data_line(const ClientLayout& layout, std::span<const int32_t> labels);

}  // namespace hanse
