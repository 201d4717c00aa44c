// Memory limits as Linux writes them down, in a made-up root.
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "hanse/base/available_memory.hpp"
#include "hanse/base/error.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

class Root {
 public:
  Root() { std::filesystem::remove_all(path_); }
  ~Root() { std::filesystem::remove_all(path_); }

  Root& write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
    return *this;
  }
  int64_t memory() const { return available_memory(path_); }

 private:
  std::filesystem::path path_ = std::filesystem::path(testing::TempDir()) /
                                testing::UnitTest::GetInstance()->current_test_info()->name();
};

const char* const kMeminfo = "MemTotal:  9000 kB\nMemFree: 10 kB\nMemAvailable:    4000 kB\n";

TEST(AvailableMemory, OfTheMachine) {
  EXPECT_EQ(Root().memory(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(Root().write("proc/meminfo", kMeminfo).memory(), 4000 << 10);
}

TEST(AvailableMemory, LowestLimitOfTheGroupsAround) {
  Root root;
  root.write("proc/meminfo", kMeminfo)
      .write("proc/self/cgroup", "0::/slurm/job_7/step_0\n")
      .write("sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n");
  EXPECT_EQ(root.memory(), 4000 << 10);
  root.write("sys/fs/cgroup/slurm/job_7/memory.max", "1000000\n");
  EXPECT_EQ(root.memory(), 1000000);
  root.write("sys/fs/cgroup/slurm/memory.max", "900000\n");
  EXPECT_EQ(root.memory(), 900000);
  root.write("sys/fs/cgroup/memory.max", "800000\n");  // a container sees its own group as the root
  EXPECT_EQ(root.memory(), 800000);
}

TEST(AvailableMemory, FirstVersionOfGroups) {
  Root root;
  root.write("proc/self/cgroup", "3:cpu,cpuacct:/fast\n2:memory:/small\n0::/other\n")
      .write("sys/fs/cgroup/other/memory.max", "5\n")
      .write("sys/fs/cgroup/memory/small/memory.limit_in_bytes", "2000000\n")
      .write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(root.memory(), 2000000);
}

TEST(AvailableMemory, OfThisProcess) {
  EXPECT_GT(available_memory(), 1 << 20);
  EXPECT_LT(available_memory(), std::numeric_limits<int64_t>::max());
}

TEST(AvailableMemory, WhatDoesNotFitIsRefused) {
  require_memory(1000, "it takes", "here", "");
  expect_error<IoError>([] { require_memory(int64_t{1} << 60, "it takes", "here", "make room"); },
                        {"it takes 1152921504.6 GB of memory, and there are", "here", "make room"});
}

}  // namespace
}  // namespace hanse
