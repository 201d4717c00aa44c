#include <cstdint>
#include <fstream>
#include <iterator>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "hanse/base/error.hpp"
#include "hanse/store/checkpoint.hpp"
#include "store/checkpoint_fixture.hpp"
#include "support/scratch_folder.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

constexpr int64_t kMemory = int64_t{1} << 40;

std::string contents(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// Writes a checkpoint of `clients` clients on that many ranks.
void write_example(const std::string& folder, int64_t round, int ranks, int64_t clients,
                   int64_t width) {
  run_threads(ranks, [&](Communicator& comm) {
    ClientStateStore store(width, kMemory, folder);
    fill_clients(store, clients, comm.rank(), comm.size());
    const State server = comm.rank() == 0 ? example_state(round) : State();
    write_checkpoint(folder, round, server, &store, comm);
  });
}

void expect_clients(const std::string& file, int ranks, int64_t clients, int64_t width) {
  for (int rank = 0; rank < ranks; ++rank) {
    ClientStateStore store(width, kMemory, "/tmp");
    read_checkpoint_clients(
        file, [&](int64_t client) { return client % ranks == rank; }, store);
    EXPECT_EQ(clients_wrong(store, clients, rank, ranks), "") << ranks << " ranks, rank " << rank;
  }
}

TEST(Checkpoint, EveryTypeOfArrayComesBack) {
  const ScratchFolder folder;
  const auto comm = make_single_communicator();
  const State written = example_state(12);
  write_checkpoint(folder.path(), 12, written, nullptr, *comm);
  const State read = read_checkpoint_state(folder / "round-000012.h5");
  ASSERT_EQ(read.arrays().size(), written.arrays().size());
  for (const auto& [name, array] : written.arrays()) {
    ASSERT_TRUE(read.contains(name)) << name;
    EXPECT_TRUE(read.arrays().at(name) == array) << name;
  }
  EXPECT_TRUE(std::signbit(read.get<double>("aggregator/weights")[0]));
}

TEST(Checkpoint, OneClientsRowAlone) {
  const ScratchFolder folder;
  ClientStateStore store(3, kMemory, folder.path());
  for (const int64_t client : {8, 2}) std::ranges::fill(store.row(client), 0.5F * client);
  write_checkpoint(folder.path(), 4, {}, &store, *make_single_communicator());
  const std::string file = checkpoint_path(folder.path(), 4);
  EXPECT_EQ(read_checkpoint_client(file, 2), std::vector<float>(3, 1));
  EXPECT_EQ(read_checkpoint_client(file, 8), std::vector<float>(3, 4));
  EXPECT_TRUE(read_checkpoint_client(file, 3).empty());
  write_checkpoint(folder.path(), 5, {}, nullptr, *make_single_communicator());
  EXPECT_TRUE(read_checkpoint_client(checkpoint_path(folder.path(), 5), 2).empty());
}

TEST(Checkpoint, AnEmptyStateComesBack) {
  const ScratchFolder folder;
  const auto comm = make_single_communicator();
  write_checkpoint(folder.path(), 0, State(), nullptr, *comm);
  EXPECT_TRUE(read_checkpoint_state(folder / "round-000000.h5").arrays().empty());
  ClientStateStore store(3, kMemory, folder.path());
  read_checkpoint_clients(
      folder / "round-000000.h5", [](int64_t) { return true; }, store);
  EXPECT_TRUE(store.clients().empty());
}

struct Shape {
  int64_t clients;
  int64_t width;
};

void PrintTo(const Shape& shape, std::ostream* out) {
  *out << shape.clients << " clients of " << shape.width;
}

class CheckpointShape : public ::testing::TestWithParam<Shape> {};

// Through 1 and 3 ranks, and read by other numbers of ranks than have written.
TEST_P(CheckpointShape, ClientRowsComeBackOnAnyNumberOfRanks) {
  const auto [clients, width] = GetParam();
  std::string alone;
  for (const int ranks : {1, 3, 5}) {
    const ScratchFolder folder;
    write_example(folder.path(), 7, ranks, clients, width);
    const std::string file = folder / "round-000007.h5";
    EXPECT_EQ(checkpoint_damage(file), std::nullopt);
    for (const int readers : {1, 2, 4}) expect_clients(file, readers, clients, width);
    if (ranks == 1) alone = contents(file);
    EXPECT_TRUE(contents(file) == alone) << "the bytes depend on the number of ranks: " << ranks;
    EXPECT_EQ(folder.names(), (std::vector<std::string>{"round-000007.h5"}));
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CheckpointShape,
                         ::testing::Values(Shape{0, 5}, Shape{1, 1}, Shape{2, 0}, Shape{2, 3},
                                           Shape{50, 17}, Shape{9000, 1}, Shape{9000, 300},
                                           Shape{11, 1025}, Shape{5, 1'500'000},
                                           Shape{3, 4'200'001}));

TEST(Checkpoint, ARankWithoutAStoreTakesPart) {
  const ScratchFolder folder;
  run_threads(3, [&](Communicator& comm) {
    ClientStateStore store(4, kMemory, folder.path());
    if (comm.rank() > 0) fill_clients(store, 20, comm.rank() - 1, 2);
    const State server = comm.rank() == 0 ? example_state(1) : State();
    write_checkpoint(folder.path(), 1, server, comm.rank() == 0 ? nullptr : &store, comm);
  });
  expect_clients(folder / "round-000001.h5", 2, 20, 4);
}

TEST(Checkpoint, OtherWidthIsRefused) {
  const ScratchFolder folder;
  write_example(folder.path(), 1, 1, 3, 8);
  ClientStateStore store(9, kMemory, folder.path());
  try {
    read_checkpoint_clients(
        folder / "round-000001.h5", [](int64_t) { return true; }, store);
    FAIL();
  } catch (const IoError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("have 8 floats, this job's have 9"), std::string::npos) << message;
    EXPECT_NE(message.find("round-000001.h5"), std::string::npos) << message;
  }
}

TEST(Checkpoint, AClientOnTwoRanksIsRefusedByAll) {
  const ScratchFolder folder;
  int refused = 0;
  run_threads(3, [&](Communicator& comm) {
    ClientStateStore store(2, kMemory, folder.path());
    store.row(comm.rank() == 2 ? 0 : comm.rank());
    std::string message;
    try {
      write_checkpoint(folder.path(), 1, State(), &store, comm);
    } catch (const IoError& error) {
      message = error.what();
    }
    const bool right = message == "client 0 has a state on ranks 0 and 2";
    const auto count = comm.allreduce_one<int64_t>(right ? 1 : 0, ReduceOp::kSum);
    if (comm.rank() == 0) refused = static_cast<int>(count);
  });
  EXPECT_EQ(refused, 3);
  EXPECT_TRUE(folder.names().empty());
}

TEST(Checkpoint, MakesItsFolderAndReadableFiles) {
  const ScratchFolder folder;
  const auto comm = make_single_communicator();
  const mode_t before = umask(022);
  write_checkpoint(folder / "a/b", 1'234'567, State(), nullptr, *comm);
  umask(before);
  struct stat status {};
  ASSERT_EQ(stat((folder / "a/b/round-1234567.h5").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0644U);
}

TEST(Checkpoint, NewestByNumberNotByName) {
  const ScratchFolder folder;
  const auto comm = make_single_communicator();
  const auto none = [](const std::string& file, const std::string&) { ADD_FAILURE() << file; };
  EXPECT_FALSE(newest_checkpoint(folder / "missing", none).has_value());
  EXPECT_FALSE(newest_checkpoint(folder.path(), none).has_value());
  for (const int64_t round : {999'999, 1'000'000, 5}) {
    write_checkpoint(folder.path(), round, example_state(round), nullptr, *comm);
  }
  std::ofstream(folder / "round-7.h5") << "no name of ours";
  std::ofstream(folder / "round-00000x.h5") << "nor this";
  std::ofstream(folder / ".round-9000000.h5.tmp") << "nor this";
  const auto newest = newest_checkpoint(folder.path(), none);
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(newest->round, 1'000'000);
  EXPECT_EQ(newest->file, folder / "round-1000000.h5");
  EXPECT_EQ(read_checkpoint_state(newest->file).get_one<int64_t>("round"), 1'000'000);
}

TEST(Checkpoint, PruneKeepsTheNewestUpToARound) {
  const ScratchFolder folder;
  const auto comm = make_single_communicator();
  for (int64_t round = 1; round <= 6; ++round) {
    write_checkpoint(folder.path(), round, State(), nullptr, *comm);
  }
  std::ofstream(folder / "notes.txt") << "not ours";
  prune_checkpoints(folder.path(), 0, 6);
  EXPECT_EQ(folder.names().size(), 7U);
  prune_checkpoints(folder.path(), 2, 4);
  EXPECT_EQ(folder.names(),
            (std::vector<std::string>{"notes.txt", "round-000003.h5", "round-000004.h5",
                                      "round-000005.h5", "round-000006.h5"}));
  prune_checkpoints(folder.path(), 1, 100);
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"notes.txt", "round-000006.h5"}));
  prune_checkpoints(folder / "missing", 1, 100);
}

TEST(Checkpoint, WritingTheSameRoundAgainReplacesTheFile) {
  const ScratchFolder folder;
  const auto comm = make_single_communicator();
  write_checkpoint(folder.path(), 3, example_state(3), nullptr, *comm);
  write_checkpoint(folder.path(), 3, example_state(4), nullptr, *comm);
  EXPECT_EQ(read_checkpoint_state(folder / "round-000003.h5").get_one<int64_t>("round"), 4);
}

TEST(Checkpoint, LeftoversOfAKilledRunAreRemovedAtTheNextWrite) {
  const ScratchFolder folder;
  const auto comm = make_single_communicator();
  std::ofstream(folder / ".round-000002.h5.tmp") << "half";
  std::ofstream(folder / ".round-000003.h5.tmp") << "half";
  std::ofstream(folder / ".round-000003.h5.tmp.locktest.1") << "";
  write_checkpoint(folder.path(), 3, example_state(3), nullptr, *comm);
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"round-000003.h5"}));
}

}  // namespace
}  // namespace hanse
