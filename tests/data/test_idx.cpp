#include <gtest/gtest.h>
#include <zlib.h>

#include "hanse/data/dataset.hpp"
#include "hanse/data/kinds.hpp"
#include "support.hpp"
#include "support/data_folder.hpp"

namespace hanse {
namespace {

const std::string kTrainImages = "train-images-idx3-ubyte";
const std::string kTrainLabels = "train-labels-idx1-ubyte";
const std::string kTestImages = "t10k-images-idx3-ubyte";
const std::string kTestLabels = "t10k-labels-idx1-ubyte";

std::string big_endian(const std::vector<uint32_t>& words) {
  std::string bytes;
  for (const uint32_t word : words) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(word >> shift);
  }
  return bytes;
}

// n images of rows x columns pixels; pixel p of all is (first + 7 p) mod 256.
std::string images(uint32_t n, uint32_t rows, uint32_t columns, uint32_t first) {
  std::string bytes = big_endian({0x803, n, rows, columns});
  for (uint32_t p = 0; p < n * rows * columns; ++p) bytes += static_cast<char>(first + 7 * p);
  return bytes;
}

std::string labels(const std::string& values) {
  return big_endian({0x801, static_cast<uint32_t>(values.size())}) + values;
}

void write_gz(const std::string& path, const std::string& content) {
  const gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_EQ(gzwrite(file, content.data(), static_cast<unsigned>(content.size())),
            static_cast<int>(content.size()));
  ASSERT_EQ(gzclose(file), Z_OK);
}

uint8_t byte_at(const Dataset& dataset, std::size_t i) {
  return static_cast<uint8_t>(dataset.features.at(i));
}

// A folder with a valid training pair of 3 images of 2 x 5 pixels.
class IdxTest : public testing::Test {
 protected:
  IdxTest() {
    folder_.write(kTrainImages, images(3, 2, 5, 1));
    folder_.write(kTrainLabels, labels(std::string("\4\0\2", 3)));
  }
  void expect_bad(const std::vector<std::string>& parts) {
    expect_invalid([&] { read_idx_folder(folder_.path()); }, parts);
  }
  TempFolder folder_;
};

TEST_F(IdxTest, ReadsPlainFiles) {
  const Dataset dataset = read_idx_folder(folder_.path());
  EXPECT_EQ(dataset.shape, (std::vector<int64_t>{1, 2, 5}));
  EXPECT_EQ(dataset.storage, Storage::kByte);
  EXPECT_EQ(dataset.labels, (std::vector<int32_t>{4, 0, 2}));
  EXPECT_EQ(dataset.classes, 5);
  EXPECT_TRUE(dataset.targets.empty());
  ASSERT_EQ(dataset.features.size(), 30U);
  for (std::size_t p = 0; p < 30; ++p) EXPECT_EQ(byte_at(dataset, p), (1 + 7 * p) % 256);
}

TEST_F(IdxTest, ReadsGzipAndPlainAlike) {
  const Dataset plain = read_idx_folder(folder_.path());
  TempFolder zipped;
  write_gz(zipped.file(kTrainImages + ".gz"), images(3, 2, 5, 1));
  write_gz(zipped.file(kTrainLabels + ".gz"), labels(std::string("\4\0\2", 3)));
  const Dataset other = read_idx_folder(zipped.path());
  EXPECT_EQ(other.features, plain.features);
  EXPECT_EQ(other.labels, plain.labels);
}

TEST_F(IdxTest, PoolsTheTestFilesBehindTheTrainingFiles) {
  write_gz(folder_.file(kTestImages + ".gz"), images(2, 2, 5, 100));
  folder_.write(kTestLabels, labels("\6\1"));
  const Dataset dataset = read_idx_folder(folder_.path());
  EXPECT_EQ(dataset.labels, (std::vector<int32_t>{4, 0, 2, 6, 1}));
  EXPECT_EQ(dataset.classes, 7);
  ASSERT_EQ(dataset.features.size(), 50U);
  EXPECT_EQ(byte_at(dataset, 29), (1 + 7 * 29) % 256);
  EXPECT_EQ(byte_at(dataset, 30), 100);
}

TEST_F(IdxTest, ReadsLabelsAbove127) {
  folder_.write(kTrainLabels, labels("\xFF\x80\x01"));
  const Dataset dataset = read_idx_folder(folder_.path());
  EXPECT_EQ(dataset.labels, (std::vector<int32_t>{255, 128, 1}));
  EXPECT_EQ(dataset.classes, 256);
}

TEST_F(IdxTest, MissingFilesAreNamed) {
  expect_invalid([] { read_idx_folder("/nowhere/at-all"); }, {kTrainImages, "/nowhere/at-all"});
  std::filesystem::remove(folder_.file(kTrainLabels));
  expect_bad({kTrainLabels, folder_.path()});
}

TEST_F(IdxTest, NamesOfOtherCollections) {
  const Dataset expected = read_idx_folder(folder_.path());
  const std::vector<std::vector<std::string>> collections = {
      {"train-images.idx3-ubyte", "train-labels.idx1-ubyte"},
      {"Train-Images-IDX3-ubyte", "Train-Labels-IDX1-ubyte"},
      {"emnist-letters-train-images-idx3-ubyte", "emnist-letters-train-labels-idx1-ubyte"},
      {"train_images.idx", "train_labels.idx"}};
  for (const auto& names : collections) {
    TempFolder folder;
    folder.write(names[0], images(3, 2, 5, 1));
    write_gz(folder.file(names[1] + ".gz"), labels(std::string("\4\0\2", 3)));
    const Dataset dataset = read_idx_folder(folder.path());
    EXPECT_EQ(dataset.features, expected.features) << names[0];
    EXPECT_EQ(dataset.labels, expected.labels) << names[0];
    EXPECT_TRUE(dataset.unread.empty()) << names[0];
  }
}

TEST_F(IdxTest, TheTestPairOfEmnistAndWhatLiesBesideIt) {
  TempFolder folder;
  const std::string set = "emnist-letters-";
  folder.write(set + kTrainImages, images(2, 2, 5, 1));
  folder.write(set + kTrainLabels, labels("\1\3"));
  folder.write(set + "test-images-idx3-ubyte", images(1, 2, 5, 1));
  folder.write(set + "test-labels-idx1-ubyte", labels("\2"));
  folder.write(set + kTrainImages + ".gz", "the same packed, which is not read");
  folder.write(set + "mapping.txt", "1 65 97");
  folder.write("._" + set + kTrainImages, "of a Mac");
  const Dataset dataset = read_idx_folder(folder.path());
  EXPECT_EQ(dataset.labels, (std::vector<int32_t>{1, 3, 2}));
  EXPECT_EQ(dataset.classes, 4);  // 0 has no sample
  EXPECT_EQ(dataset.test_begin, 2);
  EXPECT_EQ(dataset.unread,
            (std::vector<std::string>{"1 .gz file", "1 .txt file", "1 hidden file"}));
}

TEST_F(IdxTest, SeveralDataSetsInAFolderAreNamed) {
  for (const std::string set : {"emnist-digits-", "emnist-letters-"}) {
    folder_.write(set + kTrainImages, images(3, 2, 5, 1));
    folder_.write(set + kTrainLabels, labels("\1\1\1"));
  }
  expect_bad(
      {"3 data sets: train-images-idx3-ubyte, emnist-digits-train-images-idx3-ubyte, "
       "emnist-letters-train-images-idx3-ubyte",
       folder_.path(), "folder of its own"});
}

TEST_F(IdxTest, TwoFilesForTheSameThing) {
  folder_.write("train-images.idx3-ubyte", images(3, 2, 5, 1));
  expect_bad({"train-images-idx3-ubyte and train-images.idx3-ubyte", folder_.path()});
  std::filesystem::remove(folder_.file(kTrainImages));
  std::filesystem::create_directory(folder_.file(kTrainImages));
  EXPECT_EQ(read_idx_folder(folder_.path()).size(), 3);
}

TEST_F(IdxTest, WhatTheFolderHasInPlaceOfAFile) {
  std::filesystem::remove(folder_.file(kTrainImages));
  folder_.write("val-images-idx3-ubyte", images(3, 2, 5, 1));
  expect_bad({"neither train-images-idx3-ubyte nor train-images-idx3-ubyte.gz",
              "which has train-labels-idx1-ubyte, val-images-idx3-ubyte"});
  TempFolder qmnist;
  qmnist.write("qmnist-train-images-idx3-ubyte.gz", "");
  qmnist.write("qmnist-train-labels-idx2-int.gz", "");
  expect_invalid([&] { read_idx_folder(qmnist.path()); },
                 {"neither qmnist-train-labels-idx1-ubyte nor", "qmnist-train-labels-idx2-int.gz"});
}

TEST_F(IdxTest, OtherTypesOfIdxGetTheirOwnHint) {
  folder_.write(kTrainImages, big_endian({0xD03, 1, 1, 1, 0}));
  expect_bad({"0x00000d03, expected 0x00000803", "unsigned bytes in 3 dimensions"});
}

TEST_F(IdxTest, HalfATestPairIsAnError) {
  folder_.write(kTestLabels, labels("\1"));
  expect_bad({kTestImages, folder_.path()});
}

TEST_F(IdxTest, AFolderInPlaceOfAFile) {
  std::filesystem::remove(folder_.file(kTrainImages));
  std::filesystem::create_directory(folder_.file(kTrainImages));
  expect_bad({"found a folder", folder_.file(kTrainImages)});
}

TEST_F(IdxTest, WrongMagic) {
  folder_.write(kTrainImages, big_endian({0x3080000, 3, 2, 5}) + std::string(30, 'x'));
  expect_bad({"0x03080000, expected 0x00000803", folder_.file(kTrainImages), "field 'magic'"});
}

TEST_F(IdxTest, SwappedFilesGetTheirOwnHint) {
  folder_.write(kTrainLabels, images(3, 2, 5, 1));
  expect_bad({folder_.file(kTrainLabels), "field 'magic'", "changed places"});
}

TEST_F(IdxTest, EmptyFileAndCutHeader) {
  folder_.write(kTrainImages, "");
  expect_bad({"0 of 4 bytes", folder_.file(kTrainImages), "field 'magic'"});
  folder_.write(kTrainImages, big_endian({0x803, 3, 2}) + "ab");
  expect_bad({"2 of 4 bytes", folder_.file(kTrainImages), "field 'columns'"});
}

TEST_F(IdxTest, ZeroOrHugeExtents) {
  folder_.write(kTrainImages, big_endian({0x803, 0, 2, 5}));
  expect_bad({"images is 0", folder_.file(kTrainImages), "field 'images'"});
  folder_.write(kTrainImages, big_endian({0x803, 3, 0x80000000, 5}));
  expect_bad({"rows is 2147483648", folder_.file(kTrainImages), "field 'rows'"});
  folder_.write(kTrainImages, big_endian({0x803, 0x7FFFFFFF, 0x7FFFFFFF, 0x7FFFFFFF}) + "ab");
  expect_bad({"truncated", folder_.file(kTrainImages), "field 'pixels'"});
}

TEST_F(IdxTest, TruncatedPixelsAndLabels) {
  const std::string whole = images(3, 2, 5, 1);
  folder_.write(kTrainImages, whole.substr(0, whole.size() - 1));
  expect_bad({"3 x 10 bytes, found 29", folder_.file(kTrainImages), "field 'pixels'"});
  folder_.write(kTrainImages, whole);
  folder_.write(kTrainLabels, big_endian({0x801, 3}) + "\1");
  expect_bad({"3 x 1 bytes, found 1", folder_.file(kTrainLabels), "field 'labels'"});
}

TEST_F(IdxTest, TrailingBytes) {
  folder_.write(kTrainImages, images(3, 2, 5, 1) + "x");
  expect_bad({"bytes follow", folder_.file(kTrainImages), "field 'pixels'"});
  folder_.write(kTrainImages, images(3, 2, 5, 1));
  folder_.write(kTrainLabels, labels("\1\1\1") + "x");
  expect_bad({"bytes follow", folder_.file(kTrainLabels), "field 'labels'"});
}

TEST_F(IdxTest, CountsThatDiffer) {
  folder_.write(kTrainLabels, labels("\1\1\1\1"));
  expect_bad({"4 labels for 3 images", folder_.file(kTrainLabels), folder_.file(kTrainImages)});
}

TEST_F(IdxTest, TestImagesOfAnotherShape) {
  folder_.write(kTestImages, images(1, 5, 2, 1));
  folder_.write(kTestLabels, labels("\1"));
  expect_bad({"5 x 2", "2 x 5", folder_.file(kTestImages), "rows, columns"});
}

TEST_F(IdxTest, CutOrDamagedGzip) {
  std::filesystem::remove(folder_.file(kTrainImages));
  const std::string path = folder_.file(kTrainImages + ".gz");
  write_gz(path, images(50, 20, 20, 1));
  std::ifstream in(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  folder_.write(kTrainImages + ".gz", whole.substr(0, whole.size() / 2));
  expect_bad({"end too early", path, "field 'pixels'"});
  std::string flipped = whole;
  flipped[flipped.size() - 6] = static_cast<char>(~flipped[flipped.size() - 6]);  // in the CRC
  folder_.write(kTrainImages + ".gz", flipped);
  expect_bad({"damaged file: incorrect data check (" + path});
}

TEST(IdxFixture, IsTheExampleOfTheReadme) {
  const Dataset dataset = read_idx_folder(data_folder("/tiny-idx"));
  EXPECT_EQ(dataset.shape, (std::vector<int64_t>{1, 2, 2}));
  EXPECT_EQ(dataset.labels, (std::vector<int32_t>{2, 0, 1}));
  EXPECT_EQ(dataset.classes, 3);
  const std::vector<int> bytes = {0, 1, 2, 3, 10, 11, 12, 13, 255, 254, 253, 252};
  ASSERT_EQ(dataset.features.size(), bytes.size());
  for (std::size_t p = 0; p < bytes.size(); ++p) EXPECT_EQ(byte_at(dataset, p), bytes[p]);
}

TEST(IdxFixture, ReadsFashionMnist) {
  const DataOptions options;
  if (!std::filesystem::exists(options.path)) GTEST_SKIP() << options.path << " is not installed";
  const Dataset dataset = read_dataset(options, 0, 0, 0);
  EXPECT_EQ(dataset.size(), 70000);
  EXPECT_EQ(dataset.shape, (std::vector<int64_t>{1, 28, 28}));
  EXPECT_EQ(dataset.classes, 10);
  std::vector<int64_t> counts(10);
  for (const int32_t label : dataset.labels) ++counts.at(static_cast<std::size_t>(label));
  EXPECT_EQ(counts, std::vector<int64_t>(10, 7000));
  EXPECT_EQ(dataset.labels.front(), 9);  // an ankle boot opens both files
  EXPECT_EQ(dataset.labels[60000], 9);
}

}  // namespace
}  // namespace hanse
