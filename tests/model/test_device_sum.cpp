// The sum on a device against UpdateSum, bit for bit.
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "hanse/base/random.hpp"
#include "hanse/model/torch_library.hpp"
#include "support/devices.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

using Row = std::vector<float>;

// The values have every magnitude at which rounding to 2^-44 does something else.
Row random_row(int64_t n, uint64_t key) {
  RandomStream stream(key, Purpose::kData);
  Row row(static_cast<std::size_t>(n));
  for (float& x : row) {
    x = static_cast<float>(std::ldexp(stream.normal(), -static_cast<int>(stream.below(60))));
  }
  return row;
}

at::Tensor on_device(const std::vector<Row>& rows, const std::string& device) {
  std::vector<at::Tensor> tensors;
  for (const Row& row : rows) {
    tensors.push_back(at::from_blob(const_cast<float*>(row.data()),
                                    {static_cast<int64_t>(row.size())}, at::kFloat)
                          .clone());
  }
  return at::stack(tensors).to(at::Device(device));
}

struct Expected {
  Row sum;
  std::vector<FoldResult> folded;
};

Expected sum_on_host(std::vector<Row> rows, const Row& theta, const std::vector<double>& weights,
                     Reduction reduction = Reduction::kExact, double scale = 1) {
  UpdateSum sum(static_cast<int64_t>(theta.size()), 9, reduction);
  Expected expected{.sum = Row(theta.size())};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    expected.folded.push_back(sum.fold(rows[i], theta, weights[i]));
  }
  if (scale != 1) sum.scale(scale);
  sum.take(expected.sum);
  return expected;
}

void expect_same_bits(const Row& a, const Row& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
}

void expect_host_sum(int64_t n, Reduction reduction, double scale, const std::string& device) {
  const Row theta = random_row(n, 1);
  const std::vector<Row> rows{random_row(n, 2), random_row(n, 3), random_row(n, 4)};
  const std::vector<double> weights{0.3, -1.7};  // the third place is empty
  const Expected expected = sum_on_host(rows, theta, weights, reduction, scale);
  const auto sum = torch_library().make_device_sum(n, 9, reduction, device);
  const auto folded = sum->fold(on_device(rows, device), on_device({theta}, device)[0], weights);
  if (scale != 1) sum->scale(scale);
  Row out(theta.size());
  sum->take(out);
  expect_same_bits(out, expected.sum);
  sum->take(out);
  expect_same_bits(out, Row(theta.size()));  // it is empty by now
  ASSERT_EQ(folded.size(), weights.size());
  for (std::size_t i = 0; i < folded.size(); ++i) {
    EXPECT_TRUE(folded[i].in_range);
    const double norm = expected.folded[i].squared_norm;
    EXPECT_NEAR(folded[i].squared_norm, norm, 1e-12 * norm);
  }
}

TEST(DeviceSum, EqualsUpdateSum) {
  for (const std::string& device : test_devices()) {
    for (const int64_t n : {1, 15, 1000}) {
      for (const Reduction reduction : {Reduction::kExact, Reduction::kFast}) {
        expect_host_sum(n, reduction, 1, device);
        expect_host_sum(n, reduction, 7.0 / 3, device);
      }
    }
  }
}

// Halves go to the even neighbour: units 0.5, 1.5, 2.5, -0.5, -1.5 of 2^-44.
TEST(DeviceSum, RoundsHalvesToEven) {
  for (const std::string& device : test_devices()) {
    const auto unit = static_cast<float>(0x1p-44);
    const Row row{0.5F * unit, 1.5F * unit, 2.5F * unit, -0.5F * unit, -1.5F * unit};
    const auto sum = torch_library().make_device_sum(5, 1, Reduction::kExact, device);
    sum->fold(on_device({row}, device), on_device({Row(5)}, device)[0], std::vector<double>{1});
    Row out(5);
    sum->take(out);
    EXPECT_EQ(out, (Row{0, 2 * unit, 2 * unit, 0, -2 * unit}));
  }
}

TEST(DeviceSum, TellsWhatIsOutOfRange) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const Row theta{0, 0, 0};
  const auto limit = std::nextafter(static_cast<float>(UpdateSum::limit(9)), 0.0F);
  const std::vector<Row> rows{
      {1, kNan, 2}, {1, kInf, 2}, {1, 2 * limit, 2}, {1, limit, 2}, {1, -limit, 2}};
  const std::vector<double> ones(rows.size(), 1.0);
  const Expected expected = sum_on_host(rows, theta, ones);
  for (const std::string& device : test_devices()) {
    const auto sum = torch_library().make_device_sum(3, 9, Reduction::kExact, device);
    const auto folded = sum->fold(on_device(rows, device), on_device({theta}, device)[0], ones);
    Row out(3);
    sum->take(out);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(folded[i].in_range, expected.folded[i].in_range) << i;
      EXPECT_EQ(folded[i].in_range, i >= 3) << i;
    }
    expect_same_bits(out, expected.sum);
  }
}

// Over 1 to 4 ranks, each with some of the rows.
TEST(DeviceSum, IsTheSameForAnyNumberOfRanks) {
  constexpr int64_t kSize = 301;
  const Row theta = random_row(kSize, 1);
  std::vector<Row> rows;
  std::vector<double> weights;
  for (uint64_t i = 0; i < 9; ++i) {
    rows.push_back(random_row(kSize, 10 + i));
    weights.push_back(0.1 + 0.2 * static_cast<double>(i));
  }
  const Expected expected = sum_on_host(rows, theta, weights);
  for (const std::string& device : test_devices()) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      run_threads(ranks, [&](Communicator& comm) {
        const auto staged = torch_library().make_staged_communicator(comm);
        Row model = comm.rank() == 0 ? theta : Row(theta.size());
        at::Tensor origin = on_device({Row(theta.size())}, device)[0];
        staged->bcast(model, origin, 0);
        EXPECT_EQ(model, theta);
        const auto sum = torch_library().make_device_sum(kSize, 9, Reduction::kExact, device);
        for (std::size_t i = 0; i < rows.size(); ++i) {
          if (static_cast<int>(i * i) % ranks != comm.rank()) continue;
          sum->fold(on_device({rows[i]}, device), origin, std::span(&weights[i], 1));
        }
        sum->reduce(*staged, 0);
        if (comm.rank() != 0) return;
        Row out(theta.size());
        sum->take(out);
        expect_same_bits(out, expected.sum);
      });
    }
  }
}

}  // namespace
}  // namespace hanse
