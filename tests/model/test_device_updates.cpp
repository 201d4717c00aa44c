// Updates kept on devices: their Gram matrices against a slow sum, with the same bits on any number
// of ranks; what a rank gets to see; their weighted sum against UpdateSum, bit for bit.
#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hanse/model/torch_library.hpp"
#include "sums/gram_support.hpp"
#include "support/devices.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

constexpr int64_t kCohort = 3;

// theta of n values: rows are updates + theta, in float32.
std::vector<float> make_theta(int64_t n) {
  std::vector<float> theta(static_cast<std::size_t>(n));
  for (std::size_t j = 0; j < theta.size(); ++j) theta[j] = 0.25F * static_cast<float>(j % 7);
  return theta;
}

// What is kept of the rows, rounded as on the device.
Rows updates_of(const Rows& rows, const std::vector<float>& theta) {
  Rows updates = rows;
  for (auto& row : updates) {
    for (std::size_t j = 0; j < row.size(); ++j) row[j] -= theta[j];
  }
  return updates;
}

at::Tensor on_device(const std::vector<float>& row, const std::string& device) {
  return at::from_blob(const_cast<float*>(row.data()), {static_cast<int64_t>(row.size())},
                       at::kFloat)
      .clone()
      .to(at::Device(device));
}

// Keeps the rows of these positions in cohorts with kCohort places, of which the last may be empty.
std::vector<FoldResult> keep(DeviceUpdates& updates, const Rows& rows,
                             const std::vector<float>& theta, const std::vector<int64_t>& positions,
                             const std::string& device) {
  std::vector<FoldResult> told;
  for (std::size_t begin = 0; begin < positions.size(); begin += kCohort) {
    const std::size_t end = std::min(begin + kCohort, positions.size());
    std::vector<at::Tensor> cohort;
    for (std::size_t i = begin; i < end; ++i) {
      cohort.push_back(on_device(rows[static_cast<std::size_t>(positions[i])], device));
    }
    while (cohort.size() < kCohort) cohort.push_back(on_device(theta, device));
    const auto kept = updates.keep(at::stack(cohort), on_device(theta, device),
                                   std::span(positions).subspan(begin, end - begin));
    told.insert(told.end(), kept.begin(), kept.end());
  }
  return told;
}

// Those of a rank: row `position` belongs to rank (position * stride + 1) % ranks.
std::vector<int64_t> positions_of(const Communicator& comm, std::size_t k, int stride) {
  std::vector<int64_t> mine;
  for (auto position = static_cast<int64_t>(k) - 1; position >= 0; --position) {
    if ((position * stride + 1) % comm.size() == comm.rank()) mine.push_back(position);
  }
  return mine;
}

// On rank 0, twice with the same object.
std::vector<double> gram_on(int ranks, const Rows& rows, const std::vector<float>& theta,
                            const std::vector<RowPart>& parts, int stride,
                            const std::string& device) {
  std::vector<double> result;
  run_threads(ranks, [&](Communicator& comm) {
    const auto staged = torch_library().make_staged_communicator(comm);
    const auto updates =
        torch_library().make_device_updates(comm, *staged, parts, std::ssize(theta), device);
    for (int repeat = 0; repeat < 2; ++repeat) {
      keep(*updates, rows, theta, positions_of(comm, rows.size(), stride), device);
      auto gram = updates->gram(static_cast<int64_t>(rows.size()));
      updates->clear();
      EXPECT_EQ(gram.empty(), comm.rank() != 0);
      if (comm.rank() == 0) result = std::move(gram);
    }
  });
  return result;
}

TEST(DeviceUpdates, GramIsTheSlowSumWithTheSameBitsOnAnyRanks) {
  for (const std::string& device : test_devices()) {
    for (const int64_t n : {1, 2, 7, 4097, 25000}) {
      const auto theta = make_theta(n);
      for (const int64_t k : {1, 2, 7}) {
        const auto rows = make_rows(k, n);
        for (const auto& parts : {std::vector<RowPart>{{0, n}},
                                  std::vector<RowPart>{{0, (n + 1) / 2}, {(n + 1) / 2, n}}}) {
          if (parts.back().size() == 0) continue;
          const auto expected = slow_gram(updates_of(rows, theta), parts);
          const auto alone = gram_on(1, rows, theta, parts, 1, device);
          ASSERT_EQ(alone.size(), expected.size());
          for (std::size_t i = 0; i < expected.size(); ++i) {
            EXPECT_NEAR(alone[i], expected[i], 2e-12 * static_cast<double>(n)) << n << " " << k;
          }
          for (int ranks = 2; ranks <= 4; ++ranks) {
            for (const int stride : {0, 1, 3}) {  // 0: one rank has all rows
              EXPECT_EQ(gram_on(ranks, rows, theta, parts, stride, device), alone)
                  << n << " " << k << " " << ranks << " " << stride;
            }
          }
        }
      }
    }
  }
}

// The row has GramBlocks::kMost blocks, and a last one that is shorter.
TEST(DeviceUpdates, GramOfALongRow) {
  const int64_t n = GramBlocks::kLength * GramBlocks::kMost + 77;
  const auto theta = make_theta(n);
  const auto rows = make_rows(2, n);
  const std::vector<RowPart> parts{{0, n}};
  const auto expected = slow_gram(updates_of(rows, theta), parts);
  for (const std::string& device : test_devices()) {
    const auto alone = gram_on(1, rows, theta, parts, 1, device);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(alone[i], expected[i], 1e-9 * static_cast<double>(n));
    }
    EXPECT_EQ(gram_on(3, rows, theta, parts, 1, device), alone);
  }
}

// A row a rank: what comes from another rank is part of its row, and no more than one copy of each
// value travels. Rank 0 gets products, not values.
TEST(DeviceUpdates, NoRankGetsAnothersWholeRow) {
  for (const int ranks : {2, 3, 4}) {
    for (const int64_t n : {2, 100, 5000, 40000}) {
      const auto theta = make_theta(n);
      const auto rows = make_rows(ranks, n);
      std::mutex mutex;
      std::vector<int64_t> sent(static_cast<std::size_t>(ranks));
      run_threads(ranks, [&](Communicator& inner) {
        Counting comm(inner);
        const auto staged = torch_library().make_staged_communicator(comm);
        const auto updates = torch_library().make_device_updates(comm, *staged, {{0, n}}, n, "cpu");
        keep(*updates, rows, theta, {comm.rank()}, "cpu");
        updates->gram(ranks);
        EXPECT_EQ(comm.received[comm.rank()], 0);
        EXPECT_LT(comm.others, 8 * (3 * ranks + 128 * ranks * ranks));
        const std::lock_guard lock(mutex);
        for (const auto& [from, bytes] : comm.received) {
          EXPECT_LT(bytes, 4 * n) << ranks << " ranks, " << n << " values, from " << from;
          sent[static_cast<std::size_t>(from)] += bytes;
        }
      });
      for (const int64_t bytes : sent) EXPECT_LE(bytes, 4 * n);
    }
  }
}

// One weight for each part and position.
TEST(DeviceUpdates, FoldEqualsUpdateSum) {
  constexpr int64_t kSize = 301;
  constexpr int64_t kTrained = 290;  // buffers stand behind, which are no part of the norm
  constexpr int64_t kRows = 7;
  const std::vector<RowPart> parts{{0, 100}, {100, 101}, {101, kSize}};
  const auto theta = make_theta(kSize);
  const auto rows = make_rows(kRows, kSize);
  std::vector<double> weights;
  for (int64_t i = 0; i < 3 * kRows; ++i) weights.push_back(std::sin(static_cast<double>(i) + 1));
  Rows expected_updates = updates_of(rows, theta);
  UpdateSum expected(kSize, kRows, Reduction::kExact);
  for (std::size_t part = 0; part < parts.size(); ++part) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto values = std::span(expected_updates[i])
                              .subspan(static_cast<std::size_t>(parts[part].begin),
                                       static_cast<std::size_t>(parts[part].size()));
      expected.fold(values, {}, weights[part * kRows + i], parts[part].begin);
    }
  }
  std::vector<float> expected_sum(kSize);
  expected.take(expected_sum);
  for (const std::string& device : test_devices()) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      run_threads(ranks, [&](Communicator& comm) {
        const auto staged = torch_library().make_staged_communicator(comm);
        const auto updates =
            torch_library().make_device_updates(comm, *staged, parts, kTrained, device);
        const auto sum = torch_library().make_device_sum(kSize, kRows, Reduction::kExact, device);
        const auto mine = positions_of(comm, rows.size(), 1);
        const auto told = keep(*updates, rows, theta, mine, device);
        ASSERT_EQ(told.size(), mine.size());
        for (std::size_t i = 0; i < mine.size(); ++i) {
          const auto& update = expected_updates[static_cast<std::size_t>(mine[i])];
          const double norm = slow_gram({update}, {{0, kTrained}}).front();
          EXPECT_NEAR(told[i].squared_norm, norm, 1e-12 * norm);
        }
        EXPECT_EQ(updates->fold(weights, kRows, *sum), -1);
        EXPECT_EQ(updates->fold(weights, kRows, *sum), -1);  // forgotten: adds nothing
        sum->reduce(*staged, 0);
        if (comm.rank() != 0) return;
        std::vector<float> found(kSize);
        sum->take(found);
        EXPECT_EQ(found, expected_sum) << device << " " << ranks;
      });
    }
  }
}

TEST(DeviceUpdates, WhatIsOutOfRangeIsTold) {
  const auto comm = make_single_communicator();
  const auto staged = torch_library().make_staged_communicator(*comm);
  const std::vector<float> theta(3);
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const Rows rows{{1, 2, 3}, {1, kNan, 3}, {1, 2, 3}, {4, 5, 6}, {1, 2, 3}};
  for (const std::string& device : test_devices()) {
    const auto updates =
        torch_library().make_device_updates(*comm, *staged, {{0, 2}, {2, 3}}, 2, device);
    const auto told = keep(*updates, rows, theta, {0, 1, 2, 3, 4}, device);
    for (std::size_t i = 0; i < told.size(); ++i) EXPECT_EQ(told[i].in_range, i != 1);
    updates->clear();
    keep(*updates, rows, theta, {0, 2, 4, 3}, device);
    const auto sum = torch_library().make_device_sum(3, 5, Reduction::kExact, device);
    std::vector<double> weights(10, 1.0);
    weights[5 + 3] = 0x1p40;  // of the second part, position 3
    EXPECT_EQ(updates->fold(weights, 5, *sum), 3);
  }
}

// A rule leaves updates out, whose values may be no numbers then; also where the rows of several
// cohorts have some in front, within and behind.
TEST(DeviceUpdates, WhatHasNoWeightDoesNotCount) {
  const auto comm = make_single_communicator();
  const auto staged = torch_library().make_staged_communicator(*comm);
  const std::vector<float> theta(2);
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const std::string& device : test_devices()) {
    for (const Reduction reduction : {Reduction::kExact, Reduction::kFast}) {
      const auto updates = torch_library().make_device_updates(*comm, *staged, {{0, 2}}, 2, device);
      const auto sum = torch_library().make_device_sum(2, 8, reduction, device);
      const Rows rows{{1, kInf}, {16, 32},  {4, 8},       {kInf, kNan},
                      {1, 2},    {kNan, 1}, {kNan, kNan}, {64, 128}};
      keep(*updates, rows, theta, {5, 4, 3, 2, 1, 0, 6, 7}, device);
      const std::vector<double> weights{0, 1, 0.5, 0, 2, 0, 0, 1};  // of positions
      EXPECT_EQ(updates->fold(weights, 8, *sum), -1);
      std::vector<float> found(2);
      sum->take(found);
      EXPECT_EQ(found, (std::vector<float>{2 + 2 + 16 + 64, 4 + 4 + 32 + 128})) << device;
    }
  }
}

}  // namespace
}  // namespace hanse
