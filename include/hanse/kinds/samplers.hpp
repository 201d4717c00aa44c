// Makes samplers by the names of a job.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "hanse/data/federation.hpp"
#include "hanse/rules/sampling/sampler.hpp"

namespace hanse {

struct Job;
struct SamplerOptions;

struct SamplerTraits {
  bool blind = false;        // draws do not depend on what participants report
  bool even = false;         // every client that is there is as likely as any other
  bool distinct = false;     // nobody is drawn twice: as many draws as clients are all clients
  bool everyone = false;     // all available clients take part
  bool by_shares = false;    // draws by fixed shares, which make_sampler() needs
  bool by_samples = false;   // knows each client's samples, which make_sampler() then needs
  bool own = false;          // the user's own: it draws for itself, and nobody can impose a draw
  bool has_experts = false;  // weighs experts: ClientSampler::expert_weights()
};

// The number in sampler.a-max; empty for its words. Throws InvalidArgument for anything else.
std::optional<double> given_bound(const std::string& text);

// Throws InvalidArgument for an unknown kind, as do the makers.
SamplerTraits sampler_traits(const SamplerOptions& options);

// Makes the job's sampler, one a call. Throws InvalidArgument when options and federation do not
// fit together.
std::function<std::unique_ptr<ClientSampler>()> sampler_maker(const Job& job,
                                                              const Federation& federation);
std::unique_ptr<ClientSampler> make_sampler(const Job& job, const Federation& federation);
// Makes a sampler without data. `initial` [M]: shares of weighted and lipschitz, samples of the
// clients for formula, first probabilities of the osmd family; empty: uniform, where the kind has
// such a start.
std::unique_ptr<ClientSampler> make_sampler(const SamplerOptions& options, int64_t clients,
                                            std::span<const double> initial);

}  // namespace hanse
