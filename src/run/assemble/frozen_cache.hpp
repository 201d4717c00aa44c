// model.frozen-cache: what is frozen before the first tensor that moves, computed once.
#pragma once

#include "hanse/comm/communicator.hpp"
#include "hanse/job/job.hpp"
#include "hanse/run/assembly.hpp"
#include "hanse/run/engine_choice.hpp"

namespace hanse {

// Finds the frozen part of a graph of which client.train or client.lora train a part, and keeps
// what it makes of the samples where the job asks for it; greets with its size. Where training
// changes samples, passes compute it as ever. Collective. Throws AgreedError: there is no room in
// memory, if the job asks for that, or on the engine's GPU.
void take_frozen_part(const Job& job, const Engine& engine, Communicator& comm, Assembly& assembly);

}  // namespace hanse
