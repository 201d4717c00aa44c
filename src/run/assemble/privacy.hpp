// The private rounds of a job.
#pragma once

#include <functional>
#include <memory>

#include "hanse/comm/communicator.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/job/job.hpp"
#include "hanse/model/model.hpp"
#include "hanse/protocol/private_samples.hpp"
#include "hanse/protocol/private_training.hpp"
#include "hanse/rules/sampling/sampler.hpp"

namespace hanse {

// The key of the first round; the same on all ranks. A numbered one hangs on run.seed, too, so that
// repeats have noise of their own. Collective.
CipherKey first_key(const Job& job, Communicator& comm);

// Null unless rounds are private for clients. Collective. Throws InvalidArgument as PrivateRounds,
// and for models with buffers.
std::unique_ptr<PrivateTraining> make_private_training(const Job& job, const Model& model,
                                                       const Federation& federation,
                                                       Communicator& comm);

// Null unless privacy.unit = sample. Collective. Throws InvalidArgument as SampleRounds, and for
// models with buffers.
std::unique_ptr<PrivateSamples> make_private_samples(const Job& job, const Model& model,
                                                     const Federation& federation,
                                                     Communicator& comm);

// sampler_maker(), but where draws are secret (has_secret_draws) the sampler draws by the words of
// `privacy`, which must be there by then.
std::function<std::unique_ptr<ClientSampler>()> private_sampler_maker(
    const Job& job, const Federation& federation, const std::unique_ptr<PrivateTraining>& privacy);

}  // namespace hanse
