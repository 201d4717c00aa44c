#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hanse/base/error.hpp"
#include "hanse/store/run_lock.hpp"
#include "support/scratch_folder.hpp"

namespace hanse {
namespace {

// The message of the refusal; empty when the lock was free.
std::string refusal(const std::string& folder, double patience_s = 0) {
  try {
    RunLock::take(folder, patience_s);
    return "";
  } catch (const InvalidArgument& error) {
    return error.what();
  }
}

TEST(RunLock, RefusesASecondRunAndNamesTheFirst) {
  const ScratchFolder folder;
  const RunLock lock = RunLock::take(folder.path(), 0);
  const std::string said = refusal(folder.path());
  EXPECT_NE(said.find("another run writes this folder (host "), std::string::npos) << said;
  EXPECT_NE(said.find(fmt::format("process {}, since 20", getpid())), std::string::npos) << said;
  EXPECT_NE(said.find(folder.path()), std::string::npos) << said;
}

TEST(RunLock, IsFreeWhenItsRunHasEnded) {
  const ScratchFolder folder;
  std::optional<RunLock> lock = RunLock::take(folder.path(), 0);
  lock.reset();
  EXPECT_EQ(refusal(folder.path()), "");
}

TEST(RunLock, LastsUntilTheLastRankHasEnded) {
  const ScratchFolder folder;
  std::optional<RunLock> server = RunLock::take(folder.path(), 0);
  std::optional<RunLock> worker = RunLock::join(folder.path());
  server.reset();
  EXPECT_NE(refusal(folder.path()), "");
  worker.reset();
  EXPECT_EQ(refusal(folder.path()), "");
}

TEST(RunLock, WaitsForARankThatIsAboutToEnd) {
  const ScratchFolder folder;
  std::optional<RunLock> dying = RunLock::take(folder.path(), 0);
  std::thread end([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    dying.reset();
  });
  EXPECT_EQ(refusal(folder.path(), 60), "");
  end.join();
}

TEST(RunLock, IsFreeWhenItsProcessWasKilled) {
  const ScratchFolder folder;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const RunLock lock = RunLock::take(folder.path(), 0);
    if (write(ready[1], "x", 1) == 1) pause();
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_NE(refusal(folder.path()), "");
  kill(child, SIGKILL);
  EXPECT_EQ(refusal(folder.path(), 60), "");
  waitpid(child, nullptr, 0);
}

// Whoever only looks takes nothing, and no lock that a killed process has left is held.
TEST(RunLock, CanBeLookedAt) {
  const ScratchFolder folder;
  EXPECT_EQ(RunLock::is_taken(folder.path()), false);
  std::optional<RunLock> lock = RunLock::take(folder.path(), 0);
  EXPECT_EQ(RunLock::is_taken(folder.path()), true);
  std::ifstream file(folder / "lock");
  const std::string owner{std::istreambuf_iterator<char>(file), {}};
  lock.reset();
  EXPECT_EQ(RunLock::is_taken(folder.path()), false);
  std::ofstream(folder / "lock") << owner;
  EXPECT_EQ(RunLock::is_taken(folder.path()), false);
  EXPECT_EQ(refusal(folder.path()), "");
  std::ofstream(folder / "lock") << "host not-" << owner.substr(5);
  EXPECT_EQ(RunLock::is_taken(folder.path()), std::nullopt);
}

TEST(RunLock, LeavesNothingOfARunThatWroteNothing) {
  const ScratchFolder folder;
  { const RunLock lock = RunLock::take(folder / "a/b/run", 0); }
  EXPECT_TRUE(folder.names().empty());
  { const RunLock lock = RunLock::take(folder.path(), 0); }
  EXPECT_TRUE(folder.names().empty());
}

TEST(RunLock, KeepsWhatItsRunHasWritten) {
  const ScratchFolder folder;
  {
    const RunLock lock = RunLock::take(folder / "run", 0);
    std::ofstream(folder / "run/job.cfg") << "[run]";
  }
  EXPECT_EQ(folder.names(), std::vector<std::string>{"run"});
}

TEST(RunLock, FoldersAreLockedApart) {
  const ScratchFolder one, other;
  const RunLock lock = RunLock::take(one.path(), 0);
  EXPECT_EQ(refusal(other.path()), "");
}

}  // namespace
}  // namespace hanse
