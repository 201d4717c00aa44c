// The test samples of no client.
#include <fstream>
#include <map>

#include <gtest/gtest.h>

#include "hanse/comm/communicator.hpp"
#include "hanse/evaluation/evaluation.hpp"
#include "support/scratch_folder.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

std::string big_endian(std::initializer_list<uint32_t> words) {
  std::string bytes;
  for (const uint32_t word : words) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(word >> shift);
  }
  return bytes;
}

// n images of 1 x 2 pixels with labels 0, 1, 2, 0, ...
void write_part(const ScratchFolder& folder, const std::string& part, uint32_t n) {
  std::string pixels, labels;
  for (uint32_t i = 0; i < n; ++i) {
    pixels += static_cast<char>(37 * i);
    pixels += static_cast<char>(i / 8);
    labels += static_cast<char>(i % 3);
  }
  std::ofstream(folder / (part + "-images-idx3-ubyte"), std::ios::binary)
      << big_endian({0x803, n, 1, 2}) << pixels;
  std::ofstream(folder / (part + "-labels-idx1-ubyte"), std::ios::binary)
      << big_endian({0x801, n}) << labels;
}

TEST(CommonTest, TheSameBitsOnAnyNumberOfRanks) {
  constexpr uint32_t kTests = 19500;  // twenty pieces
  const ScratchFolder folder;
  write_part(folder, "train", 7);
  write_part(folder, "t10k", kTests);
  const DataOptions data{
      .kind = "idx", .path = folder.path(), .test_fraction = 2, .test = OwnTests::kCommon};
  std::map<std::string, double> alone;
  for (int ranks = 1; ranks <= 4; ++ranks) {
    run_threads(ranks, [&](Communicator& comm) {
      const auto federation = Federation::load(data, {.clients = 2}, 1, comm);
      ASSERT_EQ(federation.common_test().size(), kTests);
      EXPECT_EQ(federation.samples(), 7 + kTests);
      EXPECT_EQ(federation.train_samples(), 3);
      for (int64_t i = 0; i < kTests; ++i) {
        const auto at = static_cast<std::size_t>(federation.common_test().begin + i);
        ASSERT_EQ(federation.labels()[at], i % 3);
      }
      const auto model = make_model({.kind = "linear"}, {1, 1, 2}, 3);
      const std::vector<float> row = {1, -2, 0.5F, 3, -1, 2, 0.1F, -0.2F, 0.3F};
      RowEvaluator evaluator(federation, *model);
      const auto found = evaluate_common_test(federation, evaluator.at(row), comm, "x_");
      if (comm.rank() > 0) {
        EXPECT_TRUE(found.empty());
        return;
      }
      const std::map<std::string, double> metrics(found.begin(), found.end());
      if (ranks == 1) {
        const auto sums = evaluator.range(federation.common_test());
        EXPECT_NEAR(metrics.at("x_common_loss"), sums.loss / kTests, 1e-9);
        EXPECT_EQ(metrics.at("x_common_accuracy"), sums.correct / kTests);
        alone = metrics;
      }
      EXPECT_EQ(metrics, alone) << ranks << " ranks";
    });
  }
}

TEST(CommonTest, DataWithoutOne) {
  const auto comm = make_single_communicator();
  const DataOptions data{.kind = "random", .shape = {2}, .classes = 3};
  const auto federation = Federation::load(data, {.clients = 2, .samples = 5}, 1, *comm);
  const auto model = make_model({.kind = "linear"}, {2}, 3);
  RowEvaluator evaluator(federation, *model);
  EXPECT_TRUE(evaluate_common_test(federation, evaluator, *comm, "").empty());
}

}  // namespace
}  // namespace hanse
