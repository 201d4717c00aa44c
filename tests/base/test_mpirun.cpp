// What launchers leave in the environment.
#include <cstdlib>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "hanse/base/mpirun.hpp"

namespace hanse {
namespace {

using Variables = std::map<std::string, std::string>;

// All that launchers are known by; given back at the end.
class Launched {
 public:
  explicit Launched(const Variables& variables) {
    for (const char* name : kKnown) {
      if (const char* value = std::getenv(name)) before_[name] = value;
      unsetenv(name);
    }
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Launched() {
    for (const char* name : kKnown) unsetenv(name);
    for (const auto& [name, value] : before_) setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  static constexpr const char* kKnown[] = {
      "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK",      "PMI_SIZE", "PMIX_RANK",
      "SLURM_PROCID",         "SLURM_STEP_NUM_TASKS", "SLURM_PTY_PORT"};
  Variables before_;
};

void expect_launched(const Variables& variables, bool as_rank, int rank, int ranks,
                     bool by_slurm = false) {
  const Launched launched(variables);
  EXPECT_EQ(started_as_rank(), as_rank);
  EXPECT_EQ(launch().rank, rank);
  EXPECT_EQ(launch().ranks, ranks);
  EXPECT_EQ(launch().by_slurm, by_slurm);
}

TEST(Mpirun, RanksAsLaunchersCountThem) {
  expect_launched({}, false, 0, 0);
  expect_launched({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "3"}}, true, 2, 3);
  expect_launched({{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}}, true, 1, 4);
  expect_launched({{"PMIX_RANK", "5"}}, true, 5, 0);
}

TEST(Mpirun, TasksOfSlurm) {
  const Variables step = {{"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "8"}};
  expect_launched(step, false, 3, 8, true);
  Variables with_pmix = step;
  with_pmix["PMIX_RANK"] = "3";
  expect_launched(with_pmix, true, 3, 8, true);
  Variables shell = step;  // of srun --pty
  shell["SLURM_PTY_PORT"] = "40000";
  expect_launched(shell, false, 0, 0);
  expect_launched({{"SLURM_PROCID", "0"}}, false, 0, 0);  // a batch script
  Variables under_mpirun = step;                          // which srun has started on this host
  under_mpirun["OMPI_COMM_WORLD_RANK"] = "1";
  under_mpirun["OMPI_COMM_WORLD_SIZE"] = "1";
  expect_launched(under_mpirun, true, 1, 1);
}

// No launcher has started this process itself.
TEST(Mpirun, ARankOfAScriptHasItsOwnCommand) {
  const Launched launched({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "3"}});
  EXPECT_FALSE(started_in_a_row());
}

}  // namespace
}  // namespace hanse
