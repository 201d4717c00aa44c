#include "hanse/base/mpirun.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

namespace hanse {

namespace {

// Set by Open MPI, by the family of MPICH, and by PMIx (srun), which tells no number of ranks.
constexpr std::array kRankVariables = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"};
constexpr std::array kRanksVariables = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
// Set for the tasks of a step, with MPI or without. A batch script is no task of a step.
constexpr const char* kTaskVariable = "SLURM_PROCID";
constexpr const char* kTasksVariable = "SLURM_STEP_NUM_TASKS";

// Names of processes; Linux keeps their first 15 characters.
constexpr std::array kMpiruns = {"mpirun", "orterun", "mpiexec", "prterun"};
// One a host, of Open MPI, MPICH and Slurm.
constexpr std::array kHostLaunchers = {"orted", "prted", "hydra_pmi_proxy", "slurmstepd"};

bool is_one_of(const auto& known, const std::string& name) {
  return std::ranges::any_of(known, [&](const char* one) { return name.starts_with(one); });
}

const char* first_of(const auto& variables) {
  for (const char* name : variables) {
    if (const char* value = std::getenv(name)) return value;
  }
  return nullptr;
}

int number(const char* text) { return text ? std::max(0, std::atoi(text)) : 0; }

std::string name_of(int process) {
  std::ifstream file(fmt::format("/proc/{}/comm", process));
  std::string name;
  std::getline(file, name);
  return name;
}

int parent_of(int process) {
  std::ifstream file(fmt::format("/proc/{}/status", process));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("PPid:")) return std::atoi(line.c_str() + 5);
  }
  return 0;
}

}  // namespace

bool started_as_rank() { return first_of(kRankVariables) || first_of(kRanksVariables); }

Launch launch() {
  const char* rank = first_of(kRankVariables);
  const char* ranks = first_of(kRanksVariables);
  const char* task = std::getenv(kTaskVariable);
  const char* tasks = std::getenv(kTasksVariable);
  const bool by_slurm = !ranks && task && tasks && !std::getenv("SLURM_PTY_PORT");
  return {.rank = number(rank || !by_slurm ? rank : task),
          .ranks = number(by_slurm ? tasks : ranks),
          .by_slurm = by_slurm};
}

bool started_in_a_row() {
  const Launch launched = launch();
  if ((launched.ranks > 0 ? launched.ranks : launched.rank + 1) < 2) return false;
  const std::string parent = name_of(getppid());
  return is_one_of(kMpiruns, parent) || is_one_of(kHostLaunchers, parent);
}

int mpirun_process() {
  int parent = getppid();
  if (name_of(parent) == "hydra_pmi_proxy") parent = parent_of(parent);  // MPICH: one a host
  return is_one_of(kMpiruns, name_of(parent)) ? parent : 0;
}

}  // namespace hanse
