// What `hanse privacy` finds of one case, and the paragraph that a paper says of it.
#pragma once

#include <cstdint>
#include <string>

#include "hanse/job/job.hpp"
#include "hanse/rules/privacy/private_rounds.hpp"

namespace hanse {

// What a case has.
struct PrivacyCase {
  PrivacyTerms terms;
  int64_t rounds = 0, per_round = 0;
  double epsilon = 0, delta = 0, multiplier = 0;
  PrivacyCost cost;
  AccountantKind accountant = AccountantKind::kRdp;  // whose epsilon it is
  int64_t client_rounds = 0;                         // of a client, about; with distributed noise
  double of_server = 0;                              // what these cost against the server
  PrivateRound round;
  double sensitivity = 0;  // steps
  double signal = 0;       // to noise
  double bits = 0;         // of an entry
};

// Unit, neighbours, draws, clip, noise and whose secret, rounds, the epsilon and its accountant,
// and what may be published: sentences on one line, or why the guarantee does not hold.
std::string privacy_statement(const Job& job, const PrivacyCase& one);

}  // namespace hanse
