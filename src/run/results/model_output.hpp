// The models that a run writes: best.h5, model.h5, averaged.h5 and state_dict.pt.
#pragma once

#include <string>

#include "hanse/job/job.hpp"
#include "hanse/run/assembly.hpp"

namespace hanse {

// Writes the model as it is now, with all tensors that it has beside those that are trained, to a
// file that ends in .pt (a state dict) or .h5. Rank 0, after collect(). Throws IoError.
void write_present_model(const Job& job, Assembly& parts, const std::string& path);

// Writes what a run leaves at its end to run.out.
void write_final_models(const Job& job, Assembly& parts);

}  // namespace hanse
