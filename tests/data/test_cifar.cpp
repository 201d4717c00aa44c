// The binary files of CIFAR-10 and CIFAR-100.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support.hpp"

namespace hanse {
namespace {

constexpr std::size_t kPixels = 3 * 32 * 32;

// An image of one value.
std::string record(const std::string& labels, char pixel) {
  return labels + std::string(kPixels, pixel);
}

class CifarTest : public testing::Test {
 protected:
  Dataset read(const std::string& label_column = "label") const {
    return read_cifar(folder_.path(), label_column);
  }
  TempFolder folder_;
};

TEST_F(CifarTest, TenHasFiveFilesOfTrainingSamplesAndOneOfTestSamples) {
  for (char part = 1; part <= 5; ++part) {
    const std::string name = "data_batch_" + std::to_string(part) + ".bin";
    folder_.write(name, record(std::string(1, part), static_cast<char>(10 * part)));
  }
  folder_.write("test_batch.bin", record("\x9", 99) + record("\x1", 98));
  const Dataset dataset = read();
  EXPECT_EQ(dataset.shape, (std::vector<int64_t>{3, 32, 32}));
  EXPECT_EQ(dataset.classes, 10);
  EXPECT_EQ(dataset.labels, (std::vector<int32_t>{1, 2, 3, 4, 5, 9, 1}));
  EXPECT_EQ(dataset.test_begin, 5);
  EXPECT_EQ(dataset.features.front(), std::byte{10});
  EXPECT_EQ(dataset.features[2 * kPixels - 1], std::byte{20});
  EXPECT_EQ(dataset.features.back(), std::byte{98});
  expect_invalid([&] { read("coarse_label"); }, {"CIFAR-10 has no coarse labels"});
}

TEST_F(CifarTest, HundredHasFineAndCoarseLabels) {
  folder_.write("train.bin", record("\x3\x55", 1) + record("\x13\x63", 2));
  EXPECT_EQ(read().labels, (std::vector<int32_t>{0x55, 0x63}));
  EXPECT_EQ(read().classes, 100);
  EXPECT_EQ(read("coarse_label").labels, (std::vector<int32_t>{3, 0x13}));
  EXPECT_EQ(read("coarse_label").classes, 20);
  EXPECT_EQ(read().features[kPixels], std::byte{2});
}

TEST_F(CifarTest, FilesThatAreMissingCutOffOrOfOtherClassesAreRefused) {
  expect_invalid([&] { read(); }, {"data_batch_1.bin is not in the folder", folder_.path()});
  folder_.write("train.bin", record("\x1\x2", 1) + "\x1");
  expect_invalid([&] { read(); }, {"the file is 3075 bytes long, no multiple of a record's 3074"});
  folder_.write("train.bin", record("\x1\x2", 1) + record("\x1\x64", 1));
  expect_invalid([&] { read(); }, {"label 100 of 100 classes", "train.bin, record 1"});
}

}  // namespace
}  // namespace hanse
