// Files that were damaged, and disks that are full.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/comm/forwarding_communicator.hpp"
#include "hanse/store/checkpoint.hpp"
#include "store/checkpoint_fixture.hpp"
#include "store/file_size_limit.hpp"
#include "support/scratch_folder.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

constexpr int64_t kMemory = int64_t{1} << 40;

std::string contents(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void replace(const std::string& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class DamagedCheckpoint : public ::testing::Test {
 protected:
  void SetUp() override {
    run_threads(2, [&](Communicator& comm) {
      ClientStateStore store(5, kMemory, folder_.path());
      fill_clients(store, 40, comm.rank(), comm.size());
      for (const int64_t round : {10, 20}) {
        const State server = comm.rank() == 0 ? example_state(round) : State();
        write_checkpoint(folder_.path(), round, server, &store, comm);
      }
    });
    bytes_ = contents(newer_);
  }

  // The file is refused with `reason` in one line, and the older one is taken instead.
  void expect_refused(const std::string& reason, const std::string& note) {
    const auto damage = checkpoint_damage(newer_);
    ASSERT_TRUE(damage.has_value()) << note;
    EXPECT_TRUE(contains(*damage, reason)) << note << ": " << *damage;
    EXPECT_EQ(std::count(damage->begin(), damage->end(), '\n'), 0) << *damage;
    std::vector<std::string> skipped;
    const auto newest = newest_checkpoint(folder_.path(), [&](const auto& file, const auto& why) {
      EXPECT_EQ(why, *damage);
      skipped.push_back(file);
    });
    ASSERT_TRUE(newest.has_value());
    EXPECT_EQ(newest->round, 10);
    EXPECT_EQ(skipped, std::vector<std::string>{newer_});
    EXPECT_THROW(read_checkpoint_state(newer_), IoError) << note;
  }

  ScratchFolder folder_;
  std::string newer_ = folder_ / "round-000020.h5";
  std::string bytes_;
};

TEST_F(DamagedCheckpoint, TruncatedAnywhere) {
  const std::size_t full = bytes_.size();
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{1}, std::size_t{18}, std::size_t{511}, std::size_t{512},
        std::size_t{513}, full / 2, full - 4096, full - 1}) {
    replace(newer_, bytes_.substr(0, length));
    expect_refused(length < 512 ? "truncated" : "bytes long, must be",
                   "length " + std::to_string(length));
    ClientStateStore store(5, kMemory, folder_.path());
    EXPECT_THROW(read_checkpoint_clients(
                     newer_, [](int64_t) { return true; }, store),
                 IoError);
  }
  replace(newer_, bytes_ + "x");
  expect_refused("bytes long, must be", "one byte more");
}

TEST_F(DamagedCheckpoint, OneBitAnywhere) {
  const std::size_t full = bytes_.size();
  std::vector<std::size_t> places = {0, 5, 17, 18, 19, 25, 40, 60, 200, 511, 512, 520, 700};
  for (std::size_t i = 1; i < 40; ++i) places.push_back(full / 40 * i);
  places.push_back(full - 1);
  for (const std::size_t place : places) {
    for (const int bit : {0, 7}) {
      std::string damaged = bytes_;
      damaged[place] = static_cast<char>(damaged[place] ^ (1 << bit));
      replace(newer_, damaged);
      expect_refused("", "bit " + std::to_string(bit) + " of byte " + std::to_string(place));
    }
  }
}

TEST_F(DamagedCheckpoint, EachReasonIsTold) {
  std::string other = bytes_;
  other[0] = 'h';
  replace(newer_, other);
  expect_refused("it does not begin with HANSE-CHECKPOINT", "magic");
  other = bytes_;
  other[17] = '2';
  replace(newer_, other);
  expect_refused("format version", "version");
  other = bytes_;
  other[400] = 'x';
  replace(newer_, other);
  expect_refused("header is damaged", "padding");
  other = bytes_;
  other[bytes_.size() / 2] = static_cast<char>(~other[bytes_.size() / 2]);
  replace(newer_, other);
  expect_refused("its digest is", "contents");
  std::filesystem::remove(newer_);
  EXPECT_TRUE(contains(checkpoint_damage(newer_).value_or(""), "cannot be read"));
}

// Tries a checkpoint under a limit of file sizes. Returns the error's text, the same on all ranks.
std::string write_under_limit(const std::string& folder, int ranks, rlim_t limit) {
  std::vector<std::string> messages(static_cast<std::size_t>(ranks));
  const FileSizeLimit full(limit);
  run_threads(ranks, [&](Communicator& comm) {
    ClientStateStore store(5000, kMemory, folder);
    fill_clients(store, 40, comm.rank(), comm.size());
    const State server = comm.rank() == 0 ? example_state(20) : State();
    try {
      write_checkpoint(folder, 20, server, &store, comm);
    } catch (const IoError& error) {
      messages[static_cast<std::size_t>(comm.rank())] = error.what();
    }
    comm.barrier();  // the ranks are still in step
  });
  for (const auto& message : messages) EXPECT_EQ(message, messages[0]);
  return messages[0];
}

TEST(FullDisk, TheOldCheckpointStaysAndNothingElse) {
  for (const int ranks : {1, 3}) {
    for (const rlim_t limit : {rlim_t{0}, rlim_t{700}, rlim_t{100'000}, rlim_t{1'000'000}}) {
      const ScratchFolder folder;
      write_checkpoint(folder.path(), 10, example_state(10), nullptr, *make_single_communicator());
      const std::string message = write_under_limit(folder.path(), ranks, limit);
      EXPECT_TRUE(contains(message, "no room for")) << message;
      EXPECT_TRUE(contains(message, folder.path())) << message;
      EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 0) << message;
      EXPECT_EQ(folder.names(), std::vector<std::string>{"round-000010.h5"});
      EXPECT_EQ(checkpoint_damage(folder / "round-000010.h5"), std::nullopt);
    }
  }
}

// Calls `before_gather` before each gather.
class Interposed final : public ForwardingCommunicator {
 public:
  Interposed(Communicator& inner, std::function<void()> before_gather)
      : ForwardingCommunicator(inner), before_gather_(std::move(before_gather)) {}

 private:
  std::vector<std::byte> gatherv_impl(std::span<const std::byte> data, int root,
                                      std::vector<int64_t>& bytes_of) override {
    before_gather_();
    return ForwardingCommunicator::gatherv_impl(data, root, bytes_of);
  }

  std::function<void()> before_gather_;
};

// The first gather is of the ids, the others are of rows: the space was reserved, and still a write
// fails.
TEST(FullDisk, AFailureAmidTheRowsIsToldByAllRanks) {
  const ScratchFolder folder;
  std::vector<std::string> messages(3);
  run_threads(3, [&](Communicator& inner) {
    int gathers = 0;
    std::optional<FileSizeLimit> full;
    Interposed comm(inner, [&] {
      if (++gathers == 3 && inner.rank() == 0) full.emplace(600'000);
    });
    ClientStateStore store(1000, kMemory, folder.path());  // short rows go through rank 0
    fill_clients(store, 5000, comm.rank(), comm.size());
    try {
      write_checkpoint(folder.path(), 20, State(), &store, comm);
    } catch (const IoError& error) {
      messages[static_cast<std::size_t>(comm.rank())] = error.what();
    }
    comm.barrier();
  });
  for (const auto& message : messages) {
    EXPECT_TRUE(contains(message, "cannot write: File too large")) << message;
  }
  EXPECT_TRUE(folder.names().empty());
}

TEST(FullDisk, TheNextCheckpointWorksAgain) {
  const ScratchFolder folder;
  EXPECT_FALSE(write_under_limit(folder.path(), 2, 1'000'000).empty());
  EXPECT_EQ(write_under_limit(folder.path(), 2, RLIM_INFINITY), "");
  EXPECT_EQ(checkpoint_damage(folder / "round-000020.h5"), std::nullopt);
}

TEST(FullDisk, AFolderThatCannotBeMadeIsNamed) {
  const ScratchFolder folder;
  std::ofstream(folder / "file") << "in the way";
  const std::string message = write_under_limit(folder / "file/checkpoints", 2, RLIM_INFINITY);
  EXPECT_TRUE(contains(message, folder / "file/checkpoints")) << message;
}

}  // namespace
}  // namespace hanse
