// Makes samplers, and which clients are there in a round, by the names of a job.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "hanse/data/federation.hpp"
#include "hanse/rules/sampling/availability.hpp"
#include "hanse/rules/sampling/sampler.hpp"

namespace hanse {

struct Job;
struct SamplerOptions;

struct SamplerTraits {
  bool blind = false;        // draws do not depend on what participants report
  bool even = false;         // every client that is there is as likely as any other
  bool distinct = false;     // nobody is drawn twice: as many draws as clients are all clients
  bool everyone = false;     // all available clients take part
  bool by_chance = false;    // how many take part is drawn, too: per-round is expected
  bool in_rounds = false;    // draws whole rounds alone
  bool by_shares = false;    // draws by fixed shares, which make_sampler() needs
  bool by_samples = false;   // knows each client's samples, which make_sampler() then needs
  bool squares = false;      // needs_squares()
  bool compares = false;     // needs_candidates()
  bool biased = false;       // favours clients, and no weight undoes that
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
// Draws of a round among so many clients: its participants, or, where clients are drawn twice,
// more.
int64_t draws_of(const SamplerOptions& options, int64_t clients);
// Makes a sampler without data, of the seed options.seed. `initial` [M]: shares of weighted and
// lipschitz, samples of the clients for those by samples, first probabilities of the osmd family;
// empty: uniform, where the kind has such a start.
std::unique_ptr<ClientSampler> make_sampler(const SamplerOptions& options, int64_t clients,
                                            std::span<const double> initial);

// "always" (empty), a probability in (0, 1], "blocks(n)" or "blocks(n, rounds)", or the path of a
// schedule: CSV lines "client,first round,last round", both included; lines that begin with '#' are
// comments, as is a header. A client that no line names is always there.
// Throws InvalidArgument that names the file, line and field.
Availability make_availability(const std::string& text, int64_t clients);

// Is everybody there in every round?
bool is_always(const std::string& text);

// Is it the path of a schedule? Throws InvalidArgument: numbers out of range.
bool is_schedule(const std::string& text);

// Checks without knowing the clients: the form, and that a file exists.
void check_availability(const std::string& text);

}  // namespace hanse
