// Frozen values in memory and in files.
#include <fstream>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/comm/communicator.hpp"
#include "hanse/model/frozen_store.hpp"
#include "support/scratch_folder.hpp"

namespace hanse {
namespace {

constexpr FrozenStore::Shape kShape{.blocks = 3, .block_bytes = 64};

std::vector<float> block_values(float first) {
  std::vector<float> values(16);
  std::iota(values.begin(), values.end(), first);
  return values;
}

void expect_block(FrozenStore& store, int64_t block, float first) {
  const float* found = store.find(block);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(std::vector<float>(found, found + 16), block_values(first));
}

const auto alone = make_single_communicator();

TEST(FrozenStore, KeepsBlocksInMemory) {
  FrozenStore store = FrozenStore::in_memory(*alone, kShape);
  EXPECT_EQ(store.find(1), nullptr);
  store.put(1, block_values(5).data());
  expect_block(store, 1, 5);
  EXPECT_EQ(store.find(0), nullptr);
  EXPECT_EQ(store.find(2), nullptr);
}

TEST(FrozenStore, RunsSeeEachOthersBlocks) {
  const ScratchFolder folder;
  FrozenStore one = FrozenStore::in_file(*alone, folder.path(), "key0123456789abcdef", kShape);
  FrozenStore other = FrozenStore::in_file(*alone, folder.path(), "key0123456789abcdef", kShape);
  EXPECT_EQ(one.path(), other.path());
  one.put(2, block_values(7).data());
  expect_block(other, 2, 7);
  FrozenStore third = FrozenStore::in_file(*alone, folder.path(), "another0123456789", kShape);
  EXPECT_EQ(third.find(2), nullptr);
}

// A block whose values are those of another place is damaged, too.
TEST(FrozenStore, DamagedBlocksAreNotThere) {
  const ScratchFolder folder;
  std::string path;
  {
    FrozenStore store = FrozenStore::in_file(*alone, folder.path(), "key0123456789abcdef", kShape);
    for (int64_t block = 0; block < 3; ++block) store.put(block, block_values(1).data());
    path = store.path();
  }
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4096 + 4096 + 64 + 8);
  file.put('x');
  file.close();
  FrozenStore store = FrozenStore::in_file(*alone, folder.path(), "key0123456789abcdef", kShape);
  EXPECT_EQ(store.find(1), nullptr);
  expect_block(store, 0, 1);
  expect_block(store, 2, 1);
  store.put(1, block_values(1).data());
  expect_block(store, 1, 1);
}

// Their writer has died, or still writes the same values.
TEST(FrozenStore, BlocksThatSomebodyBeganAreTakenByWhoOpensTheFile) {
  const ScratchFolder folder;
  FrozenStore store = FrozenStore::in_file(*alone, folder.path(), "key0123456789abcdef", kShape);
  std::fstream file(store.path(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4096 + 8);
  file.put(1);
  file.close();
  EXPECT_EQ(store.find(1), nullptr);
  const std::vector<float> values = block_values(1);
  EXPECT_EQ(store.put(1, values.data()), values.data());
  EXPECT_EQ(store.find(1), nullptr);
  FrozenStore other = FrozenStore::in_file(*alone, folder.path(), "key0123456789abcdef", kShape);
  EXPECT_NE(other.put(1, values.data()), values.data());
  expect_block(store, 1, 1);
}

TEST(FrozenStore, AFileOfAnotherShapeIsReplaced) {
  const ScratchFolder folder;
  FrozenStore::in_file(*alone, folder.path(), "key0123456789abcdef", kShape)
      .put(0, block_values(1).data());
  FrozenStore wider = FrozenStore::in_file(*alone, folder.path(), "key0123456789abcdef",
                                           {.blocks = 4, .block_bytes = 64});
  for (int64_t block = 0; block < 4; ++block) EXPECT_EQ(wider.find(block), nullptr);
}

TEST(FrozenStore, AFolderThatIsNotThereIsAnError) {
  EXPECT_THROW(FrozenStore::in_file(*alone, "/nowhere", "key0123456789abcdef", kShape),
               AgreedError);
}

}  // namespace
}  // namespace hanse
