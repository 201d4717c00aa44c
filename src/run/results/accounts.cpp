#include "hanse/run/accounts.hpp"

#include <array>

#include <sys/resource.h>

#include "hanse/base/scope.hpp"

namespace hanse {

double peak_memory_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

Accounts gather_accounts(Communicator& comm, Communicator& host, EnergyMeter& energy) {
  PhaseTotals totals = phase_totals();
  // All ranks are here at once, but did not start at once: mpirun set up the later ones meanwhile.
  double own_s = 0;
  for (const auto& phase : totals) own_s += phase.seconds;
  const double wall_s = comm.allreduce_one(own_s, ReduceOp::kMax);
  totals[static_cast<std::size_t>(Phase::kSetUp)].seconds += wall_s - own_s;
  std::array<double, kPhases> sums, least, most, calls;
  for (std::size_t p = 0; p < kPhases; ++p) {
    sums[p] = least[p] = most[p] = totals[p].seconds;
    calls[p] = static_cast<double>(totals[p].calls);
  }
  comm.reduce(std::span(sums), ReduceOp::kSum, 0);
  comm.reduce(std::span(least), ReduceOp::kMin, 0);
  comm.reduce(std::span(most), ReduceOp::kMax, 0);
  comm.reduce(std::span(calls), ReduceOp::kMax, 0);
  const double on_host = host.allreduce_one(peak_memory_bytes(), ReduceOp::kSum);
  const auto joules = host.rank() == 0 ? energy.joules() : std::optional(0.0);
  std::array<double, 2> unknown_joules = {joules ? 0.0 : 1.0, joules.value_or(0)};
  comm.reduce(std::span(unknown_joules), ReduceOp::kSum, 0);
  Accounts found{.wall_s = wall_s,
                 .host_memory_bytes = comm.allreduce_one(on_host, ReduceOp::kMax)};
  if (unknown_joules[0] == 0) found.joules = unknown_joules[1];
  for (std::size_t p = 0; p < kPhases; ++p) {
    if (calls[p] == 0) continue;
    found.phases.push_back({.name = phase_name(static_cast<Phase>(p)),
                            .calls = static_cast<int64_t>(calls[p]),
                            .mean_s = sums[p] / static_cast<double>(comm.size()),
                            .least_s = least[p],
                            .most_s = most[p]});
  }
  return found;
}

}  // namespace hanse
