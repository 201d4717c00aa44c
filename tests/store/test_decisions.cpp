#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/store/run_directory.hpp"
#include "support/scratch_folder.hpp"

namespace hanse {
namespace {

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

const std::vector<std::vector<double>> kDecisions{{0.5, 0.25, 0.25}, {1, 0, 0}, {0, 1e-20, 1}};

// Lines of rounds 2, 4 and 6.
void write_run(const std::string& path) {
  auto run = RunDirectory::create(path, "");
  for (std::size_t i = 0; i < 3; ++i) {
    run.append_decision(2 * static_cast<int64_t>(i) + 2, kDecisions[i]);
  }
}

TEST(Decisions, ALineAnEvaluation) {
  const ScratchFolder folder;
  write_run(folder.path());
  EXPECT_EQ(content(folder / "decisions.csv"),
            "round,p_0,p_1,p_2\n2,0.5,0.25,0.25\n4,1,0,0\n6,0,1e-20,1\n");
}

TEST(Decisions, NoFileWithoutOne) {
  const ScratchFolder folder;
  write_run(folder.path());
  RunDirectory::create(folder.path(), "");  // an earlier run's file goes
  EXPECT_EQ(folder.names(),
            (std::vector<std::string>{"checkpoints", "evaluations.csv", "job.cfg", "rounds.csv"}));
  RunDirectory::reopen(folder.path(), folder.path(), 3, "");
  EXPECT_EQ(folder.names().size(), 4U);
}

TEST(Decisions, AreResultsThatAreNotOverwritten) {
  const ScratchFolder folder;
  std::ofstream(folder / "decisions.csv") << "round,p_0\n";
  EXPECT_THROW(claim_output(folder.path(), false), InvalidArgument);
  EXPECT_NO_THROW(claim_output(folder.path(), true));
}

TEST(Decisions, AreCutWhereTheRunGoesOn) {
  const std::string kept = "round,p_0,p_1,p_2\n2,0.5,0.25,0.25\n4,1,0,0\n";
  const ScratchFolder folder;
  const ScratchFolder other;
  write_run(folder.path());
  std::ofstream(folder / "decisions.csv", std::ios::app) << "8,0.1,0";  // torn
  auto elsewhere = RunDirectory::reopen(other.path(), folder.path(), 5, "");
  EXPECT_EQ(content(other / "decisions.csv"), kept);
  auto same = RunDirectory::reopen(folder.path(), folder.path(), 5, "");
  same.append_decision(6, kDecisions[2]);
  EXPECT_EQ(content(folder / "decisions.csv"), kept + "6,0,1e-20,1\n");
}

}  // namespace
}  // namespace hanse
