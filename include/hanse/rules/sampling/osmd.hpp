// Client sampling by online stochastic mirror descent on bandit feedback (Zhao, Wang, Liu, Zhang,
// Zhou, Chen and Kolar 2025): "osmd", "adaptive-osmd" and "osmd-doubling".
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hanse/rules/sampling/sampler.hpp"

namespace hanse {

enum class OsmdKind { kFixed, kAdaptive, kDoubling };

// How A_max, the bound of every a_m, is known.
enum class BoundSource {
  kGiven,
  kFirstRound,  // the largest a_m of all clients before the first round
  kRunning,     // the largest a_m seen so far
};

struct OsmdOptions {
  enum class Variant {
    kPaper,
    kReference,  // as the authors ran it: a client drawn twice counts once in the gradient, the
                 // learning rates are K/2 times the paper's, weights that underflow start again
    kCorrected,  // gamma does not change with the unit of the loss: K alpha^2/(M^2 A) sqrt(8/T)
  };
  OsmdKind kind = OsmdKind::kAdaptive;
  Variant variant = Variant::kPaper;
  bool replacement = true;
  double alpha = 0.4;     // p_m >= alpha/M; 1: uniform. In (0, 1]
  double rate_scale = 1;  // factor on a in the updates, not on A_max
  BoundSource bound = BoundSource::kFirstRound;
  double a_max = 0;              // of BoundSource::kGiven
  int64_t horizon = 0;           // T: rounds; not used by kDoubling
  double eta = kAuto;            // kFixed: the learning rate; kAuto: the grid's smallest
  double gamma = kAuto;          // learning rate of the experts' weights; kAuto: the paper's
  bool restart_uniform = false;  // kDoubling: restart from the uniform distribution, not the last

  static constexpr double kAuto = -1;
};

OsmdOptions::Variant parse_osmd_variant(const std::string& name);

// E of Algorithm 5 for T rounds: ceil(log2(1 + 4 log(M/alpha)/log M (T - 1))/2) + 1; 1 for M = 1.
int64_t osmd_experts(double alpha, int64_t clients, int64_t rounds);

struct OsmdRates {
  std::vector<double> eta;  // [E], eq. 22: 2^(e-1) K alpha^3/(M^3 A_max) sqrt(2 log M / T)
  double gamma = 0;         // Theorem 8: alpha/M sqrt(8 K/(T A_max))
};

// REQUIRES: a_max > 0.
OsmdRates osmd_rates(const OsmdOptions& options, int64_t clients, int64_t per_round, int64_t rounds,
                     double a_max);

// Each expert e keeps a distribution p_e over {p >= alpha/M}; the clients are drawn from
// p = sum_e theta_e p_e. After a round with a_m from the drawn, q_m = p_m over the available,
//   p_e <- projection of p_e exp(eta_e N_m a_m/(K^2 p_e^2 q_m))     (Algorithm 2)
//   theta_e <- theta_e exp(-gamma l_e), normalised; l_e = 1/K^2 sum_m N_m a_m/(p_e q_m).
// A round in which everyone available takes part teaches nothing.
//
// `initial` [M] is the first distribution of every expert, empty for uniform; it may lie below the
// floor until the first update. Cost a round: O(E K log M), memory O(E) a client drawn so far and
// M/8 bytes; with `initial`, O(E M) memory. Throws InvalidArgument for alpha outside (0, 1], no
// horizon where one is needed, or K above M without replacement.
std::unique_ptr<ClientSampler> make_osmd_sampler(const OsmdOptions& options, int64_t clients,
                                                 int64_t per_round,
                                                 std::span<const double> initial = {});

}  // namespace hanse
