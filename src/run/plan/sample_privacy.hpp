// `hanse privacy` of jobs whose steps are private for samples.
#pragma once

#include <string>

#include "hanse/job/job.hpp"
#include "hanse/run/privacy_table.hpp"

namespace hanse {

// privacy_table() of a checked job with privacy.unit = sample. Sizes of clients decide: the data
// must be there.
std::string sample_privacy_table(const Job& job, const PrivacyQuery& query);

}  // namespace hanse
