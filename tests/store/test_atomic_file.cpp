// Files that several processes write at once.
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hanse/base/error.hpp"
#include "hanse/store/atomic_file.hpp"
#include "support/scratch_folder.hpp"

namespace hanse {
namespace {

namespace fs = std::filesystem;

class AtomicFileTest : public testing::Test {
 protected:
  std::string path() const { return folder_ / "out.txt"; }
  std::string text() const {
    std::ostringstream text;
    text << std::ifstream(path()).rdbuf();
    return text.str();
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }

  ScratchFolder folder_;
};

TEST_F(AtomicFileTest, WritesAndLeavesNothingElse) {
  write_file(path(), "one");
  write_file(path(), "two");
  EXPECT_EQ(text(), "two");
  EXPECT_EQ(folder_.names(), (std::vector<std::string>{"out.txt"}));
}

TEST_F(AtomicFileTest, EachProcessHasANameOfItsOwn) {
  const std::string mine = temporary_beside(path());
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string own = temporary_beside(path());
    _exit(::write(ends[1], own.data(), own.size()) == std::ssize(own) ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  std::string others(4096, 0);
  others.resize(static_cast<std::size_t>(read(ends[0], others.data(), others.size())));
  EXPECT_NE(others, mine);
  EXPECT_EQ(fs::path(others).parent_path(), fs::path(mine).parent_path());
}

// What a killed process left goes; a living one's file, another host's and other names stay.
TEST_F(AtomicFileTest, RemovesWhatKilledProcessesLeft) {
  const pid_t child = fork();
  if (child == 0) {
    const TemporaryFile file(temporary_beside(path()));
    _exit(0);  // no destructor
  }
  waitpid(child, nullptr, 0);
  ASSERT_EQ(folder_.names().size(), 1U);
  const std::string mine = fs::path(temporary_beside(path())).filename().string();
  EXPECT_TRUE(folder_.names().empty());
  const std::string front = mine.substr(0, mine.rfind('-') + 1);
  const std::string stay[] = {front + std::to_string(getppid()) + ".tmp",
                              "out.txt.elsewhere.-1.tmp", "out.txt.tmp", front + "x.tmp",
                              "other-" + front + "999999999.tmp"};
  for (const std::string& name : stay) write(name, "");
  write(mine, "");
  temporary_beside(path());
  EXPECT_EQ(folder_.names().size(), std::size(stay));
}

TEST_F(AtomicFileTest, ATemporaryFileOfAnotherIsNotTaken) {
  const TemporaryFile first(folder_ / "a.tmp");
  EXPECT_THROW(TemporaryFile(folder_ / "a.tmp"), IoError);
  EXPECT_TRUE(fs::exists(folder_ / "a.tmp"));
}

TEST_F(AtomicFileTest, OneOfSeveralPublishesANewFile) {
  TemporaryFile one(folder_ / "1.tmp"), two(folder_ / "2.tmp");
  write("1.tmp", "one");
  write("2.tmp", "two");
  EXPECT_TRUE(one.publish_new(path()));
  EXPECT_FALSE(two.publish_new(path()));
  EXPECT_EQ(text(), "one");
  two.publish(path());
  EXPECT_EQ(text(), "two");
}

}  // namespace
}  // namespace hanse
