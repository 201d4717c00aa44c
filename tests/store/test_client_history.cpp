// Every client's numbers over time: a file that grows, and that a resume cuts.
#include <cmath>
#include <filesystem>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/index.hpp"
#include "hanse/data/hdf5_file.hpp"
#include "hanse/store/client_history.hpp"
#include "support/scratch_folder.hpp"

namespace hanse {
namespace {

constexpr int64_t kOf = 3;  // clients

// All clients but number round % 3 have numbers of their own.
EvaluationTable found(int64_t round) {
  EvaluationTable all;
  for (int64_t c = 0; c < kOf; ++c) {
    if (c == round % kOf) continue;
    const auto number = static_cast<double>(10 * round + c);
    all.push_back({.loss = number, .accuracy = -number, .client = c});
  }
  return all;
}

void expect_rounds(const std::string& path, const std::vector<int64_t>& rounds) {
  const hdf5::Section section;
  const auto file = hdf5::File::open_to_read(path);
  auto there = file.dataset("round").values<int64_t>();
  EXPECT_GE(there.size(), rounds.size());
  for (std::size_t i = rounds.size(); i < there.size(); ++i) EXPECT_EQ(there[i], -1);
  there.resize(rounds.size());
  EXPECT_EQ(there, rounds);
  const auto loss = file.dataset("loss").values<float>();
  const auto accuracy = file.dataset("accuracy").values<float>();
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    for (int64_t c = 0; c < kOf; ++c) {
      const std::size_t at = i * to_index(kOf) + to_index(c);
      if (c == rounds[i] % kOf) {
        EXPECT_TRUE(std::isnan(loss[at]) && std::isnan(accuracy[at]));
        continue;
      }
      EXPECT_EQ(loss[at], static_cast<float>(10 * rounds[i] + c));
      EXPECT_EQ(accuracy[at], -loss[at]);
    }
  }
  EXPECT_FALSE(file.contains("auroc"));
}

TEST(ClientHistory, GrowsAndIsCutAtAResume) {
  const ScratchFolder folder;
  const std::string path = folder / ClientHistory::kFile;
  std::vector<int64_t> rounds;
  {
    ClientHistory history(path, -1, kOf, 5, {});
    for (int64_t round = 0; round < 100; round += 2) {  // beyond the first rows, twice
      history.append(round, found(round));
      rounds.push_back(round);
      if (round % 10 == 0) expect_rounds(path, rounds);
    }
  }
  rounds.resize(21);  // until round 40
  ClientHistory resumed(path, 41, kOf, 5, {});
  expect_rounds(path, rounds);
  resumed.append(42, found(42));
  resumed.sync();
  rounds.push_back(42);
  expect_rounds(path, rounds);
  ClientHistory(path, -1, kOf, 5, {});  // a new run
  expect_rounds(path, {});
  EXPECT_EQ(folder.names(), std::vector<std::string>{ClientHistory::kFile});
}

TEST(ClientHistory, ColumnsAreThoseOfTheClients) {
  const ScratchFolder folder;
  const std::string path = folder / ClientHistory::kFile;
  ClientHistory history(path, -1, kOf, 2, {.f1 = true, .on = EvaluateOn::kBoth});
  ClientEvaluation client{.loss = 1, .accuracy = 2, .auroc = 3, .asked = {.f1 = 4}, .client = 1};
  client.validation = TestScores{.samples = 9, .loss = 5, .accuracy = 6, .auroc = 7, .asked = {}};
  history.append(1, {client});
  const hdf5::Section section;
  const auto file = hdf5::File::open_to_read(path);
  float expected = 1;
  for (const char* name :
       {"loss", "accuracy", "auroc", "f1", "validation_loss", "validation_accuracy"}) {
    EXPECT_EQ(file.dataset(name).values<float>()[1], expected++) << name;
    EXPECT_TRUE(std::isnan(file.dataset(name).values<float>()[2])) << name;
  }
  EXPECT_EQ(file.dataset_names("/").size(), 7U);
  ClientHistory(path, -1, kOf, 0, {});
  EXPECT_EQ(hdf5::File::open_to_read(path).dataset_names("/").size(), 2U);  // of a regression
}

}  // namespace
}  // namespace hanse
