// NumPy's NPZ files.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support.hpp"
#include "support/zip_file.hpp"

namespace hanse {
namespace {

class NpzTest : public testing::Test {
 protected:
  Dataset read(const std::vector<ZipEntry>& arrays, const std::string& task = "classification",
               const std::vector<int64_t>& shape = {}) {
    return read_npz(folder_.write("data.npz", zip_of(arrays, false)), task, shape);
  }
  // Bytes 0, 1, ... of an array of bytes with this shape.
  static std::string counted(const std::string& shape, int values) {
    std::string data;
    for (int i = 0; i < values; ++i) data += static_cast<char>(i);
    return npy("|u1", shape, data);
  }
  static std::string integers(const std::vector<uint64_t>& values) {
    std::string data;
    for (const uint64_t value : values) data += number_bytes(value, 8);
    return npy("<i8", std::to_string(values.size()) + ",", data);
  }
  TempFolder folder_;
};

TEST_F(NpzTest, ImagesComeChannelsFirstAndNamesAreNumbered) {
  const std::string clients = npy("<U1", "2,", number_bytes('b', 4) + number_bytes(0xE9, 4));
  const Dataset dataset = read({{"x.npy", counted("2, 2, 1, 3", 12)},
                                {"y.npy", integers({7, 5})},
                                {"client.npy", clients},
                                {"mean.npy", integers({1})}});
  EXPECT_EQ(dataset.shape, (std::vector<int64_t>{3, 2, 1}));
  EXPECT_EQ(dataset.storage, Storage::kByte);
  std::vector<int> bytes;
  for (const std::byte value : dataset.features) bytes.push_back(static_cast<int>(value));
  EXPECT_EQ(bytes, (std::vector<int>{0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11}));
  EXPECT_EQ(dataset.labels, (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(dataset.class_names, (std::vector<std::string>{"5", "7"}));
  EXPECT_EQ(dataset.groups, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(dataset.group_names, (std::vector<std::string>{"b", "\xC3\xA9"}));
  EXPECT_EQ(dataset.unread, std::vector<std::string>{"array mean"});
}

TEST_F(NpzTest, SamplesHaveTheShapeThatIsAskedFor) {
  const auto shaped = [&](const std::string& x, const std::vector<int64_t>& shape) {
    const Dataset found =
        read({{"x.npy", counted(x, 12)}, {"y.npy", integers({0, 1})}}, "classification", shape);
    std::string bytes;
    for (const std::byte value : found.features) bytes += std::to_string(static_cast<int>(value));
    return std::pair(found.shape, bytes);
  };
  const std::string in_order = "01234567891011";
  using Shape = std::vector<int64_t>;
  EXPECT_EQ(shaped("2, 2, 3", {}), std::pair(Shape({1, 2, 3}), in_order));
  EXPECT_EQ(shaped("2, 2, 3", {2, 3}), std::pair(Shape({2, 3}), in_order));
  EXPECT_EQ(shaped("2, 6", {1, 3, 2}), std::pair(Shape({1, 3, 2}), in_order));
  EXPECT_EQ(shaped("2, 2, 1, 3", {6}), std::pair(Shape({6}), in_order));
  EXPECT_EQ(shaped("2, 2, 1, 3", {3, 2, 1}), shaped("2, 2, 1, 3", {}));
  EXPECT_NE(shaped("2, 2, 1, 3", {}).second, in_order);
  expect_invalid(
      [&] {
        shaped("2, 2, 3", {2, 128});
      },
      {"the shape [2, 128] has 256 values, a sample of x 6", "data.shape"});
}

TEST_F(NpzTest, RegressionReadsNumbers) {
  const std::string x = npy("<f4", "2, 1", number_bytes(0x3F000000, 4) + number_bytes(0, 4));
  const Dataset dataset = read({{"x.npy", x}, {"y.npy", integers({3, 4})}}, "regression");
  EXPECT_EQ(features_of(dataset), (std::vector<float>{0.5F, 0}));
  EXPECT_EQ(dataset.targets, (std::vector<float>{3, 4}));
  EXPECT_TRUE(dataset.labels.empty());
}

TEST_F(NpzTest, ArraysThatAreMissingOrDoNotFitAreRefused) {
  const std::string x = counted("2, 3", 6);
  expect_invalid([&] { read({{"x.npy", x}}); }, {"the file has no array y; it has: x", "data.npz"});
  expect_invalid(
      [&] {
        read({{"x.npy", x}, {"y.npy", integers({1, 2, 3})}});
      },
      {"its shape is (3), x has 2 samples", "data.npz"});
  const std::string halves = npy("<f4", "2,", number_bytes(0x3F000000, 4) + number_bytes(0, 4));
  expect_invalid(
      [&] {
        read({{"x.npy", x}, {"y.npy", halves}});
      },
      {"0.5", "data.task = regression"});
  expect_invalid(
      [&] {
        read({{"x.npy", counted("2, 3", 5)}, {"y.npy", integers({0, 1})}});
      },
      {"its header promises 6 values of 1 bytes"});
}

}  // namespace
}  // namespace hanse
