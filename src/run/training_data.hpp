// What the protocols that train models have in common: samples and a model for them.
#pragma once

#include "hanse/job/job.hpp"
#include "hanse/run/assembly.hpp"

namespace hanse {

// Sets the ranks' threads, and fills federation, model and model_file_digest. Collective. Throws
// AgreedError.
void load_samples_and_model(const Job& job, Communicator& comm, Assembly& assembly);

// "mnist: linear with 7850 parameters, 100 clients with ...", and the model's buffers, as greeting.
void greet_training(const Job& job, const Communicator& comm, Assembly& assembly);

}  // namespace hanse
