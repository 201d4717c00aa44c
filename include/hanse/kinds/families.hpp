// The families of names that a job file can choose from, all but the protocols'.
#pragma once

#include <string>
#include <vector>

#include "hanse/job/kind.hpp"

namespace hanse {

struct ModelOptions;

// In the order of `hanse list`.
std::vector<KindFamily> kind_families();

// Checks the chosen kinds of [data] and [federation], and that the files are there. Throws
// InvalidArgument.
void check_data(const Job& job);

// The file that a model of this kind is read from; empty: it has none.
std::string model_file(const ModelOptions& options);

}  // namespace hanse
