// The part of a model that clients train, from a job and from where the model starts.
#pragma once

#include <string>
#include <vector>

#include "hanse/comm/communicator.hpp"
#include "hanse/job/job.hpp"
#include "hanse/model/part_model.hpp"
#include "hanse/run/assembly.hpp"

namespace hanse {

// Takes the part of the assembly's model that clients train, if they do not train all of it.
// Throws InvalidArgument as PartModel's constructor, and for a folder of adapters that does not go
// with the model or the job.
void take_part(const Job& job, Assembly& assembly);

// Gives clusters of clients copies of some of the assembly's model's tensors, where the job asks
// for them. Throws InvalidArgument as CopyPlaces, and where the copies take too much memory.
void take_clusters(const Job& job, Assembly& assembly);

// Sets who has which copy in every round, where that is fixed. Collective. Throws AgreedError.
void take_fixed_copies(Job& trained, Communicator& comm, Assembly& assembly);

// Starts the model by model.start, on one rank of each host where a host holds it once. Collective.
// Throws AgreedError.
void start_model(const Job& job, Communicator& comm, Assembly& assembly);

// The patterns of client.train or client.personal, in which *.lora_B is PEFT's B: of a matrix that
// is stored the other way round ours is A.
std::string with_peft_factors(const std::string& patterns, const Job& job,
                              const Assembly& assembly);

// What is frozen, and which adapters there are; empty: all is trained.
std::string frozen_text(const Job& job, const Assembly& assembly);

// What has copies, who takes which, and of which evaluations are; empty: nothing.
std::vector<std::string> clusters_text(const Job& job, const Assembly& assembly);

}  // namespace hanse
