// Private rounds by the options of a job.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hanse/base/row_part.hpp"
#include "hanse/data/federation.hpp"
#include "hanse/model/layout.hpp"
#include "hanse/rules/privacy/accountant.hpp"
#include "hanse/rules/privacy/sample_rounds.hpp"

namespace hanse {

struct AggregatorOptions;
struct Job;
struct PrivacyOptions;

// What the job's rounds release, of `clients` that train models of n_params parameters. Throws
// InvalidArgument where no theorem covers its neighbours and its sampler. REQUIRES: its sampler is
// one that check_private_rounds() allows.
PrivacyTerms privacy_terms(const Job& job, int64_t clients, int64_t n_params);

// The same of privacy.unit = sample: what each client that trains does in a round, and the most
// rounds of one. Frozen values are no parameters.
SampleTerms sample_terms(const Job& job, const Federation& federation, int64_t n_params);

// Throws InvalidArgument where a number would leave a client without noise, or where who counts
// depends on more than chance. The check of every privacy.kind but none.
void check_private_rounds(const Job& job);

// What the run has to say of its privacy before it starts: what the guarantee covers, and what it
// does not. `units`: the clients or the samples, whichever the guarantee is for.
std::vector<std::string> privacy_notices(const Job& job, int64_t units);

// Is who takes part drawn from the secret of the noise? It is where the system makes the secret and
// the guarantee counts on a draw that nobody knows.
bool has_secret_draws(const Job& job);
// comm.masks: do the ranks mask their parts of the sum?
bool masks_sums(const Job& job);

// Why the epsilon of a private run does not hold: "not private: ..."; empty: it holds.
std::string privacy_flaw(const PrivacyOptions& options);

// The entries that clients keep, by client.personal, and how many they send.
std::vector<RowPart> kept_parts(const Job& job, const ParameterLayout& layout);
int64_t sent_params(const Job& job, const ParameterLayout& layout);

// w_i of a client with so many training samples, in [0, 1]: min(samples / aggregator.cap, 1) of
// aggregator.weights = capped, else 1.
double private_weight(const AggregatorOptions& options, int64_t samples);
// The sum of w_i over all clients that train, which is public. Cost O(M).
double sum_of_private_weights(const AggregatorOptions& options, const Federation& federation);

}  // namespace hanse
