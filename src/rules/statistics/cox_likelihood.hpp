// Cox's partial likelihood from sums over the samples of bins: pure algebra, on rank 0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hanse/rules/statistics/options.hpp"
#include "hanse/rules/statistics/tally.hpp"

namespace hanse {

// The times t_1 < ... < t_J with an event, those of the strata one after another. A sample's bin is
// the last of its stratum that is not after its own time: it is at risk at that one and before.
struct CoxBins {
  std::vector<std::size_t> begins;  // [strata + 1] the strata's first ones
  std::vector<double> times;        // [J]
  std::vector<int64_t> events;      // [J] d_j
  std::vector<int64_t> samples;     // [J] of the bin
  // [J] the place of a time among those of which events are summed apart, for Efron's ties; or -1.
  std::vector<int64_t> tied;
  std::size_t ties = 0;  // how many such there are

  std::size_t size() const { return times.size(); }
  std::size_t strata() const { return begins.size() - 1; }
  // Sets `tied` and `ties` from `events`.
  void find_ties(CoxTies method);
  // [J] samples at risk.
  std::vector<int64_t> at_risk() const;
};

// Of r = exp(x.b - M_j), r x and r x x' of a bin's samples, packed: 1 + p + p (p + 1) / 2.
constexpr std::size_t cox_block(std::size_t p) { return 1 + p + packed_size(p); }

// What the ranks have found out at some b [p].
struct CoxSums {
  std::vector<double> b;       // [p]
  std::vector<double> shifts;  // [J] M_j: the exact maximum of x.b over all samples at risk at t_j
  // [J + ties, block] of the bins, and behind them of the events at each tied time, and at the end
  // [p] the sum of x over all events.
  std::vector<double> sums;
};

struct CoxPoint {
  double log_likelihood = 0;
  std::vector<double> score;        // [p] U
  std::vector<double> information;  // packed I
};

// (G10). Risk sets are sums over the bins from the last one on, R_j = a_j + e^(M_{j+1} - M_j)
// R_{j+1}, so that each is known relative to its own largest term; with two float64 a number.
// Cost: J p^2 and events p^2.
CoxPoint cox_point(const CoxBins& bins, CoxTies ties, const CoxSums& found);

// [J] d_j / R_j summed up to each time, within its stratum (Breslow 1974).
std::vector<double> cox_baseline(const CoxBins& bins, const CoxSums& found);

// What a sample's score residual (Lin and Wei 1989) takes of its bin j. With the mean x_m of the
// risk set at tie m, and sums over ties and times up to t_j within the stratum:
//   a = sum 1 / s0, B = sum x_m / s0, both times e^M_j;
// and of t_j alone its mean x_m, and A, B with the weights m / d_j of the samples with an event.
//   residual = event (x - mean) - r (x a - B) + event r (x a_own - B_own)
// [J, 2 + 3 p]: a, B, mean, a_own, B_own.
constexpr std::size_t cox_residual_row(std::size_t p) { return 2 + 3 * p; }
std::vector<double> cox_residual_rows(const CoxBins& bins, CoxTies ties, const CoxSums& found);

}  // namespace hanse
