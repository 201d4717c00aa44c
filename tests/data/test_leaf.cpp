// LEAF's folders of JSON files.
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/data/partition.hpp"
#include "sources.hpp"
#include "support.hpp"

namespace hanse {
namespace {

using Values = std::vector<float>;

class LeafTest : public testing::Test {
 protected:
  void put(const std::string& name, const std::string& text) {
    const std::filesystem::path path(folder_.file(name));
    std::filesystem::create_directories(path.parent_path());
    folder_.write(name, text);
  }
  std::unique_ptr<ClientSource> source() const {
    return make_leaf_source({.kind = "leaf", .path = folder_.path(), .test_fraction = 0}, 1);
  }
  TempFolder folder_;
};

TEST_F(LeafTest, UsersAreClientsWhoseTestFilesAreTheirTestSamples) {
  put("train/all.json", R"({"users": ["u", "v"], "num_samples": [2, 1], "user_data": {
      "u": {"x": [[0, 0.5, 1], [1, 2, 3]], "y": [0, 3]}, "v": {"x": [[4, 5, 6]], "y": [1]}}})");
  put("test/all.json", R"({"user_data": {"u": {"x": [[7, 8, 9]], "y": [2]}}})");
  const auto leaf = source();
  const Written written(*leaf);
  EXPECT_EQ(written.layout.client_names, (std::vector<std::string>{"u", "v"}));
  EXPECT_EQ(written.layout.classes, 4);
  EXPECT_EQ(written.layout.shape, std::vector<int64_t>{3});
  EXPECT_EQ(written.labels, (std::vector<int32_t>{0, 3, 2, 1}));
  EXPECT_EQ(written.sample(0), (Values{0, 0.5F, 1}));
  EXPECT_EQ(written.sample(2), (Values{7, 8, 9}));
  EXPECT_EQ(written.sample(3), (Values{4, 5, 6}));
  EXPECT_EQ(written.layout.clients[0].train_end, 2);
  EXPECT_EQ(written.layout.clients[0].end, 3);
}

TEST_F(LeafTest, TextsAreNumbersOfTheirCharacters) {
  put("train/all.json", R"({"user_data": {"u": {"x": ["ab", "b\u00e9"], "y": ["c", "a"]}}})");
  const auto leaf = source();
  const Written written(*leaf);
  EXPECT_EQ(written.layout.classes, 97);
  EXPECT_EQ(written.sample(0), (Values{67, 68}));
  EXPECT_EQ(written.sample(1), (Values{68, 0}));
  EXPECT_EQ(written.labels, (std::vector<int32_t>{69, 67}));
}

TEST_F(LeafTest, FilesThatDoNotFitTogetherAreRefused) {
  expect_invalid([&] { source(); }, {"there is no *.json", folder_.path()});
  put("train/all.json", R"({"user_data": {"u": {"x": [[1], [2]], "y": [0]}}})");
  expect_invalid([&] { source(); }, {"2 samples but 1 labels", "user 'u'"});
  put("train/all.json", R"({"user_data": {"u": {"x": [[1], [2, 3]], "y": [0, 1]}}})");
  expect_invalid([&] { source(); }, {"sample 1 has 2 values, the first of all has 1", "all.json"});
}

}  // namespace
}  // namespace hanse
