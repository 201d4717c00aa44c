// What training makes of several labels a sample and of a class for each position.
#include <algorithm>
#include <fstream>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "client/batch_stream.hpp"
#include "hanse/base/error.hpp"
#include "hanse/comm/communicator.hpp"
#include "support/errors.hpp"
#include "support/scratch_folder.hpp"

namespace hanse {
namespace {

Federation load(const DataOptions& data) {
  return Federation::load(data, {.clients = 1}, 5, *make_single_communicator());
}

// Images of four equal pixels with two labels, both told by the pixel.
DataOptions labelled_images(const ScratchFolder& folder) {
  std::string text = "p0,p1,p2,p3,even,large\n";
  for (int i = 0; i < 11; ++i) {
    text += fmt::format("{0},{0},{0},{0},{1},{2}\n", i, i % 2 == 0 ? 1 : 0, i > 5 ? 1 : 0);
  }
  std::ofstream(folder / "table.csv") << text;
  return {.kind = "csv",
          .path = folder / "table.csv",
          .test_fraction = 0,
          .label_column = "even,large",
          .shape = {1, 2, 2}};
}

TEST(SeveralLabels, StayWithTheirSamplesAndAreMixed) {
  const ScratchFolder folder;
  const Federation federation = load(labelled_images(folder));
  ClientOptions options{{.batch = 4}};
  options.augmentation.mixup = 0.5;
  BatchStream stream(options, federation), plain(ClientOptions{{.batch = 4}}, federation);
  for (BatchStream* one : {&stream, &plain}) one->start({.client = 0, .round = 1, .seed = 9});
  for (int64_t step = 0; step < plain.steps(); ++step) {
    const Batch before = plain.next(), mixed = stream.next();
    for (int64_t i = 0; i < before.rows; ++i) {
      const auto pixel = static_cast<int>(before.features[4 * i]);
      EXPECT_EQ(before.targets[2 * i], pixel % 2 == 0 ? 1 : 0);
      EXPECT_EQ(before.targets[2 * i + 1], pixel > 5 ? 1 : 0);
      for (int64_t k = 0; k < 2; ++k) {
        EXPECT_EQ(mixed.targets[2 * i + k], before.targets[2 * i + k]);
        EXPECT_EQ(mixed.mixed->targets[2 * i + k], before.targets[2 * ((i + 1) % before.rows) + k]);
      }
    }
  }
  expect_error<InvalidArgument>([&] { ClassWeights({.class_weights = "all"}, federation); },
                                {"client.class-weights", "several labels"});
}

TEST(Sequences, ClassesAreWeighedByTheirPositions) {
  const ScratchFolder folder;
  std::ofstream(folder / "play.txt") << "A:\naababbbaaa\n";
  const Federation federation = load({.kind = "text",
                                      .path = folder / "play.txt",
                                      .test_fraction = 0,
                                      .vocabulary = Characters::kData,
                                      .window = 4,
                                      .targets = TextTargets::kEvery});
  ASSERT_EQ(federation.train(0).size(), 3);  // "abab", "bbaa", "a": 5 a and 4 b are predicted
  const std::vector<int32_t> order = {0, 1, 2};
  for (const char* scope : {"all", "client"}) {
    ClassWeights weights({.class_weights = scope}, federation);
    const float* found = weights.of(0, order);
    const auto labels = federation.labels();
    const auto a = static_cast<double>(std::ranges::count(labels, 2));
    const auto b = static_cast<double>(std::ranges::count(labels, 3));
    ASSERT_EQ(a + b, 9);
    EXPECT_EQ(found[0], 0);
    EXPECT_FLOAT_EQ(found[2], static_cast<float>(9 / (2 * a)));
    EXPECT_FLOAT_EQ(found[3], static_cast<float>(9 / (2 * b)));
  }
}

}  // namespace
}  // namespace hanse
