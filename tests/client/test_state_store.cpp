#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "hanse/base/error.hpp"
#include "hanse/client/state_store.hpp"
#include "store/file_size_limit.hpp"
#include "support/scratch_folder.hpp"

namespace hanse {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// Distinct for every client and column, and exact in float32.
float value_of(int64_t client, int64_t column) {
  return static_cast<float>(client * 1000 + column % 1000 + 1);
}

void fill(ClientStateStore& store, int64_t client) {
  const auto row = store.row(client);
  for (int64_t i = 0; i < store.width(); ++i) row[i] = value_of(client, i);
}

// Index of the first wrong value; -1: none.
int64_t first_wrong(std::span<const float> row, int64_t client) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (row[i] != value_of(client, static_cast<int64_t>(i))) return static_cast<int64_t>(i);
  }
  return -1;
}

// Bytes of this process's anonymous mappings that reserve no memory: those of the stores.
int64_t anonymous_bytes() {
  std::ifstream maps("/proc/self/smaps");
  int64_t total = 0, kilobytes = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.starts_with("Size:")) kilobytes = std::stoll(line.substr(5));
    const bool in_file = line.find(" sh ") != std::string::npos;
    const bool reserves = line.find(" nr ") == std::string::npos;
    if (line.starts_with("VmFlags:") && !in_file && !reserves) total += kilobytes * 1024;
  }
  return total;
}

// Bytes on the disk of this process's open files without a name in `folder`.
int64_t unnamed_bytes(const std::string& folder) {
  int64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    struct stat status {};
    if (target.rfind(folder, 0) != 0 || stat(entry.path().c_str(), &status) != 0) continue;
    bytes += status.st_blocks * 512;
  }
  return bytes;
}

TEST(StateStore, TakesNothingBeforeTheFirstRow) {
  const ScratchFolder folder;
  const int64_t others = anonymous_bytes();
  const ClientStateStore store(1'000'000'000'000, 1024 * kMiB, folder.path());
  EXPECT_EQ(anonymous_bytes(), others);
  EXPECT_EQ(unnamed_bytes(folder.path()), 0);
  EXPECT_TRUE(store.clients().empty());
  EXPECT_TRUE(folder.names().empty());
}

class StateStoreWidth : public ::testing::TestWithParam<int64_t> {};

TEST_P(StateStoreWidth, RowsAreZeroDistinctAndStable) {
  const ScratchFolder folder;
  const int64_t width = GetParam();
  const int64_t clients = width > 100'000 ? 5 : 3000;
  ClientStateStore store(width, 2 * kMiB, folder.path());  // a part in memory, a part in the file
  std::vector<const float*> first;
  for (int64_t i = 0; i < clients; ++i) {
    const int64_t client = (i * 7919) % 100'003;  // not in order
    const auto row = store.row(client);
    ASSERT_EQ(static_cast<int64_t>(row.size()), width);
    for (const float value : row) ASSERT_EQ(value, 0.0F);
    first.push_back(row.data());
    fill(store, client);
  }
  for (int64_t i = 0; i < clients; ++i) {
    const int64_t client = (i * 7919) % 100'003;
    EXPECT_EQ(store.row(client).data(), first[static_cast<std::size_t>(i)]);
    EXPECT_EQ(store.existing_row(client).data(), first[static_cast<std::size_t>(i)]);
    ASSERT_EQ(first_wrong(store.existing_row(client), client), -1) << "client " << client;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first[static_cast<std::size_t>(i)]) % 64, 0U);
  }
  EXPECT_EQ(static_cast<int64_t>(store.clients().size()), clients);
}

INSTANTIATE_TEST_SUITE_P(Widths, StateStoreWidth,
                         ::testing::Values(0, 1, 3, 16, 17, 1025, 300'001, 2'000'000));

TEST(StateStore, MemoryUpToTheLimitThenOneUnlinkedFile) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer takes memory of its own";
#endif
  const ScratchFolder folder;
  const int64_t others = anonymous_bytes();
  constexpr int64_t kWidth = 1024;                          // rows of 4 KiB
  ClientStateStore store(kWidth, 6 * kMiB, folder.path());  // 1536 of them
  for (int64_t client = 0; client < 1536; ++client) fill(store, client);
  EXPECT_EQ(anonymous_bytes() - others, 6 * kMiB);
  EXPECT_EQ(unnamed_bytes(folder.path()), 0);
  for (int64_t client = 1536; client < 4000; ++client) fill(store, client);
  EXPECT_EQ(anonymous_bytes() - others, 6 * kMiB);
  EXPECT_GE(unnamed_bytes(folder.path()), (4000 - 1536) * 4096);
  EXPECT_LE(unnamed_bytes(folder.path()), (4000 - 1536) * 4096 + 4 * kMiB);
  EXPECT_TRUE(folder.names().empty()) << "the file has a name: it would outlive a killed run";
  for (int64_t client = 0; client < 4000; ++client) {
    ASSERT_EQ(first_wrong(store.existing_row(client), client), -1) << "client " << client;
  }
}

// A hole would be a SIGBUS on a full disk.
TEST(StateStore, TheFileHasItsBlocksBeforeItIsUsed) {
  const ScratchFolder folder;
  ClientStateStore store(3'000'000, 0, folder.path());
  store.row(1);
  EXPECT_GE(unnamed_bytes(folder.path()), 12'000'000);
}

TEST(StateStore, NoMemoryAllowedMeansFileOnly) {
  const ScratchFolder folder;
  const int64_t others = anonymous_bytes();
  ClientStateStore store(5, 0, folder.path());
  fill(store, 12);
  EXPECT_EQ(anonymous_bytes(), others);
  EXPECT_GT(unnamed_bytes(folder.path()), 0);
  EXPECT_EQ(first_wrong(store.existing_row(12), 12), -1);
}

TEST(StateStore, ListsClientsInOrder) {
  const ScratchFolder folder;
  ClientStateStore store(2, kMiB, folder.path());
  for (const int64_t client : {9, 2, 5, 2, 9}) store.row(client);
  EXPECT_EQ(store.clients(), (std::vector<int64_t>{2, 5, 9}));
  EXPECT_TRUE(store.contains(5));
  EXPECT_FALSE(store.contains(4));
}

TEST(StateStore, TheRoomOfADroppedClientIsTheNextOnes) {
  ClientStateStore store(3, 1 << 20, ".");
  for (const int64_t client : {5, 7, 9}) std::ranges::fill(store.row(client), 1.0F);
  const float* place = store.row(7).data();
  store.drop(7);
  EXPECT_FALSE(store.contains(7));
  EXPECT_EQ(store.clients(), (std::vector<int64_t>{5, 9}));
  const auto row = store.row(8);
  EXPECT_EQ(row.data(), place);
  EXPECT_EQ(std::vector<float>(row.begin(), row.end()), std::vector<float>(3, 0.0F));
  EXPECT_EQ(store.row(9)[2], 1);
  EXPECT_NE(store.row(7).data(), place);
  ClientStateStore without_width(0, 0, ".");
  without_width.row(1);
  without_width.drop(1);
  EXPECT_FALSE(without_width.contains(1));
}

TEST(StateStore, GoesBackToTheLastMark) {
  ClientStateStore store(2, 1 << 20, ".");
  const auto set = [&](int64_t client, float value) {
    std::ranges::fill(store.row(client), value);
  };
  const auto of = [&](int64_t client) { return store.existing_row(client)[1]; };
  store.renew_mark();  // there is none
  set(1, 10);
  store.mark();
  set(1, 11);
  set(1, 12);
  set(2, 20);
  set(3, 30);
  store.take_back();
  EXPECT_EQ(store.clients(), std::vector<int64_t>{1});
  EXPECT_EQ(of(1), 10);
  EXPECT_EQ(store.row(2)[1], 0);
  store.renew_mark();
  set(1, 13);
  set(2, 21);
  store.renew_mark();
  set(1, 14);
  store.take_back();
  EXPECT_EQ(of(1), 13);
  EXPECT_EQ(of(2), 21);
}

TEST(StateStore, AFullDiskIsAnErrorAndTheRowsStay) {
  const ScratchFolder folder;
  ClientStateStore store(1024, 0, folder.path());
  const FileSizeLimit full(9 * kMiB);  // two slabs fit
  int64_t client = 0;
  std::string message;
  try {
    for (; client < 10'000; ++client) fill(store, client);
  } catch (const IoError& error) {
    message = error.what();
  }
  EXPECT_EQ(client, 2048);
  EXPECT_NE(message.find(folder.path()), std::string::npos) << message;
  EXPECT_NE(message.find("4194304 bytes"), std::string::npos) << message;
  EXPECT_NE(message.find("client.state-memory"), std::string::npos) << message;
  EXPECT_FALSE(store.contains(client));
  for (int64_t i = 0; i < client; ++i) ASSERT_EQ(first_wrong(store.existing_row(i), i), -1);
}

TEST(StateStore, AMissingFolderIsAnError) {
  ClientStateStore store(4, 0, "/nonexistent/folder");
  EXPECT_THROW(store.row(0), IoError);
  EXPECT_FALSE(store.contains(0));
}

TEST(StateRoom, WhatFitsIsAccepted) {
  const ScratchFolder folder;
  constexpr int64_t kGiB = int64_t{1} << 30;
  EXPECT_NO_THROW(require_state_room(kGiB, 4, 16, kGiB, "/proc"));  // just so many bytes of memory
  EXPECT_THROW(require_state_room(kGiB, 5, 16, kGiB, "/proc"), InvalidArgument);
  EXPECT_NO_THROW(require_state_room(0, int64_t{1} << 40, 1, 0, "/proc"));
  EXPECT_NO_THROW(require_state_room(1024, 1, 1, 0, folder.path() + "/made/later"));
}

TEST(StateRoom, WhatCannotFitIsRefusedWithTheNumbers) {
  try {
    require_state_room(10'000'000, 100'000'000, 2, int64_t{1} << 30, "/nonexistent/run");
    FAIL() << "4 PB were accepted";
  } catch (const InvalidArgument& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("100000000 clients need 4000000.0 GB"), std::string::npos) << message;
    EXPECT_NE(message.find("client.state-memory"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace hanse
