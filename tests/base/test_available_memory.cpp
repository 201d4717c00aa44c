// Memory limits as Linux writes them down, in a made-up root.
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include <gtest/gtest.h>
#include <sys/resource.h>

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

// A limit of this process that the test takes back.
class Limit {
 public:
  Limit(__rlimit_resource resource, int64_t bytes) : resource_(resource) {
    getrlimit(resource_, &before_);
    rlimit now = before_;
    now.rlim_cur = static_cast<rlim_t>(bytes);
    EXPECT_EQ(setrlimit(resource_, &now), 0);
  }
  ~Limit() { setrlimit(resource_, &before_); }

 private:
  __rlimit_resource resource_;
  rlimit before_ = {};
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMapsMuch = true;
#else
constexpr bool kMapsMuch = false;
#endif

TEST(AvailableMemory, LimitsOfTheProcess) {
  if (kMapsMuch) GTEST_SKIP() << "the sanitizer maps terabytes";
  constexpr int64_t kMore = int64_t{64} << 20;
  EXPECT_NO_THROW(require_threads(3, {kMore, "which it takes"}, "here"));
  const auto used = bytes_stated("/proc/self/status", "VmSize");
  ASSERT_TRUE(used);
  const Limit limit(RLIMIT_AS, *used + kMore);
  EXPECT_LE(available_memory(), kMore);
  EXPECT_GT(available_memory(), kMore / 2);
  expect_error<InvalidArgument>(
      [] {
        require_threads(1, {2 * kMore, "which it takes"}, "run.threads");
      },
      {"no room for 0.134 GB of memory, which it takes", "ulimit -v", "run.threads", "hint"});
  expect_error<InvalidArgument>(
      [] {
        require_threads(0, {2 * kMore, "which it takes", false, "do this"}, "");
      },
      {"no room for 0.134 GB of memory, which it takes", "ulimit -v", "hint: do this"});
  expect_error<InvalidArgument>([] { require_threads(1000, {}, ""); },
                                {"cannot start 1000 more threads", "ulimit -v", "ulimit -u"});
  EXPECT_NE(out_of_memory_text().find("out of memory in the phase set-up: the address space"),
            std::string::npos);
}

TEST(AvailableMemory, DataOfTheProcess) {
  if (kMapsMuch) GTEST_SKIP() << "the sanitizer maps terabytes";
  constexpr int64_t kMore = int64_t{64} << 20;
  const auto used = bytes_stated("/proc/self/status", "VmData");
  ASSERT_TRUE(used);
  const Limit limit(RLIMIT_DATA, *used + kMore);
  EXPECT_LE(available_memory(), kMore);
  expect_error<InvalidArgument>(
      [] {
        require_threads(0, {2 * kMore, "which it takes"}, "");
      },
      {"no room for 0.134 GB", "ulimit -d"});
  EXPECT_NO_THROW(require_threads(0, {.bytes = 2 * kMore, .is_data = false}, ""));
}

}  // namespace
}  // namespace hanse
