// Where the time of a run went, over its ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hanse/base/energy.hpp"
#include "hanse/comm/communicator.hpp"

namespace hanse {

// Seconds of this start of the program, not of those before a resume.
struct PhaseAccount {
  std::string name;
  int64_t calls = 0;                           // of the rank with the most
  double mean_s = 0, least_s = 0, most_s = 0;  // over the ranks
};

struct Accounts {
  double wall_s = 0;
  std::vector<PhaseAccount> phases;  // those that any rank was in; the means sum to wall_s
  int64_t participants = 0;          // that were trained
  double rounds_s = 0;               // in which they were
  double flops = 0;                  // of all ranks' models (Model::flops); 0: not known
  double host_memory_bytes = 0;      // resident at most, of all ranks of the host with the most
  std::optional<double> joules;      // of the hosts' processors, of other programs on them too

  double clients_per_second() const { return static_cast<double>(participants) / rounds_s; }
  double gflops() const { return 1e-9 * flops / rounds_s; }  // a second
};

// Most resident memory of this process so far.
double peak_memory_bytes();

// Of the ranks, on rank 0; `host` has those of this host. Collective.
Accounts gather_accounts(Communicator& comm, Communicator& host, EnergyMeter& energy);

}  // namespace hanse
