// `hanse privacy`: what a job's rounds cost in privacy, and how strong their noise is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hanse/base/options.hpp"

namespace hanse {

// The table that is asked for, as the command line gives it.
struct PrivacyQuery {
  std::vector<int64_t> rounds;     // a line each; empty: run.rounds
  std::vector<int64_t> per_round;  // the same of sampler.per-round
  std::vector<double> epsilon;     // to meet, in the place of privacy.noise; empty: the job's
  bool json = false;               // JSON in the place of a table
  bool bits = false;               // also the bits of a sum's entries
  bool statement = false;          // a paragraph for a paper in the place of a line
};

// Names "rounds", "per-round" and "epsilon"; `query` must outlive the table.
void bind_privacy_query(OptionTable& table, PrivacyQuery& query);

// One line a case: epsilon by each accountant that applies, noise, and how strong the signal may be
// beside it, C n / (sigma sqrt P): all n expected participants send updates of length C in one
// direction, spread evenly over P coordinates. Clients and parameters are those of the data where
// they can be read; else the text says what is assumed. Nobody trains. JSON: an object with
// epsilon, delta, noise_multiplier, best_order, epsilon_zcdp, epsilon_pld, sigma, step_exponent and
// sensitivity; several cases are a list of these, with rounds and per_round. A number that does not
// apply is null. `bits` adds b of 2^b >= 2 k sqrt(rho/P (C n)^2 + (step^2/4 + sigma^2/n) n) / step,
// k = 4, rho = 1 (Kairouz, Liu and Steinke 2021): what modular arithmetic on the sum would need.
// `statement`: privacy_statement() of each case.
// Cost: reading the data, and some 0.3 s a case.
// Throws InvalidArgument: what hanse run would refuse of the options, a job without privacy, and
// noise that cannot be had.
std::string privacy_table(const std::string& job_file, const Overrides& overrides,
                          const PrivacyQuery& query);

}  // namespace hanse
