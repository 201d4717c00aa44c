// How the ranks of a run spent their time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hanse/base/energy.hpp"
#include "hanse/comm/communicator.hpp"

namespace hanse {

// Seconds since this start of the program, without those before a resume.
struct PhaseAccount {
  std::string name;
  int64_t calls = 0;                           // on the rank with the most
  double mean_s = 0, least_s = 0, most_s = 0;  // over the ranks
};

struct Accounts {
  double wall_s = 0;
  std::vector<PhaseAccount> phases;  // that any rank was in; the means sum to wall_s
  int64_t participants = 0;          // that were trained
  double rounds_s = 0;               // of the rounds that trained them
  double flops = 0;                  // by all ranks' models (Model::flops); 0: not known
  double host_memory_bytes = 0;      // resident peak, on the host with the most
  std::optional<double> joules;      // the hosts' processors', other programs' included

  double clients_per_second() const { return static_cast<double>(participants) / rounds_s; }
  double gflops() const { return 1e-9 * flops / rounds_s; }  // a second
};

// Peak resident memory of this process so far.
double peak_memory_bytes();

// Gathers the ranks' accounts on rank 0; `host` has the ranks of this host. Collective.
Accounts gather_accounts(Communicator& comm, Communicator& host, EnergyMeter& energy);

}  // namespace hanse
