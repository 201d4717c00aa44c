#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "data/client_source.hpp"

namespace hanse {
namespace {

ClientLayout layout(int64_t classes, std::vector<std::string> names = {}) {
  return {.shape = {2},
          .classes = classes,
          .clients = {{0, 2, 3}, {3, 4, 5}},
          .common_test = 1,
          .class_names = std::move(names)};
}

TEST(DataLine, IsShortWhenAllIsAsExpected) {
  const std::vector<int32_t> labels = {0, 1, 2, 2, 1, 0};
  EXPECT_EQ(data_line(layout(3), labels), "data: 6 samples of 2 clients, 3 classes");
  EXPECT_EQ(data_line(layout(3, {"cat", "dog", "horse"}), labels),
            "data: 6 samples of 2 clients, 3 classes: cat, dog, horse");
}

TEST(DataLine, NamesClassesWithoutASampleAndWhatWasNotRead) {
  const std::vector<int32_t> labels = {3, 1, 3, 3, 1, 1};
  EXPECT_EQ(data_line(layout(4), labels),
            "data: 6 samples of 2 clients, 4 classes; 2 classes have no sample: 0, 2");
  ClientLayout pictures = layout(4, {"ant", "bee", "cow", "dog"});
  pictures.unread = {"12 .bmp files", "2 hidden folders"};
  const std::vector<int32_t> most = {3, 1, 2, 3, 1, 1};
  EXPECT_EQ(data_line(pictures, most),
            "data: 6 samples of 2 clients, 4 classes: ant, bee, cow, dog; 1 class has no sample: "
            "ant; not read: 12 .bmp files, 2 hidden folders");
}

TEST(DataLine, ShortensManyNames) {
  std::vector<std::string> names;
  std::vector<int32_t> labels;
  for (int32_t c = 0; c < 100; ++c) names.push_back("n" + std::to_string(c));
  for (int32_t c = 0; c < 100; ++c) labels.push_back(c);
  EXPECT_EQ(data_line(layout(100, names), labels),
            "data: 6 samples of 2 clients, 100 classes: n0, n1, n2, n3, n4, n5, n6 ... n99");
}

TEST(DataLine, KnowsTargetsAndSeveralLabels) {
  EXPECT_EQ(data_line(layout(0), {}), "data: 6 samples of 2 clients, a number to predict");
  ClientLayout several = layout(0);
  several.label_values = 3;
  EXPECT_EQ(data_line(several, {}), "data: 6 samples of 2 clients, 3 numbers to predict");
  several.multi_label = true;
  EXPECT_EQ(data_line(several, {}), "data: 6 samples of 2 clients, 3 labels");
}

}  // namespace
}  // namespace hanse
