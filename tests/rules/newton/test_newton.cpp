// Compressors of symmetric matrices and Newton directions, against what they stand for.
#include <cmath>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/error.hpp"
#include "hanse/base/random.hpp"
#include "hanse/rules/newton/symmetric.hpp"
#include "support/errors.hpp"

namespace hanse {
namespace {

using Numbers = std::vector<double>;

// The place of entry (i, j). REQUIRES: 0 <= i <= j < d.
int64_t packed_index(int64_t i, int64_t j, int64_t d) { return i * d - i * (i - 1) / 2 + j - i; }

std::size_t at(int64_t i, int64_t j, int64_t d) {
  return static_cast<std::size_t>(packed_index(std::min(i, j), std::max(i, j), d));
}

Numbers random_symmetric(int64_t d, uint64_t seed) {
  RandomStream random(seed, Purpose::kData);
  Numbers packed(static_cast<std::size_t>(packed_size(d)));
  for (double& value : packed) value = random.normal();
  return packed;
}

// sum_k values[k] q_k q_k^T, q_k the columns of the orthogonal matrix I - 2 u u^T/|u|^2.
Numbers with_eigenvalues(const Numbers& values) {
  const auto d = static_cast<int64_t>(values.size());
  RandomStream random(5, Purpose::kData);
  Numbers u(values.size());
  for (double& value : u) value = random.normal();
  const double squared = std::inner_product(u.begin(), u.end(), u.begin(), 0.0);
  const auto q = [&](int64_t i, int64_t k) {
    return (i == k ? 1.0 : 0.0) -
           2 * u[static_cast<std::size_t>(i)] * u[static_cast<std::size_t>(k)] / squared;
  };
  Numbers packed(static_cast<std::size_t>(packed_size(d)));
  for (int64_t i = 0; i < d; ++i) {
    for (int64_t j = i; j < d; ++j) {
      for (int64_t k = 0; k < d; ++k) {
        packed[at(i, j, d)] += values[static_cast<std::size_t>(k)] * q(i, k) * q(j, k);
      }
    }
  }
  return packed;
}

Numbers difference(const Numbers& a, const Numbers& b) {
  Numbers result(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) result[i] = a[i] - b[i];
  return result;
}

// H x for a packed H.
Numbers product(const Numbers& h, const Numbers& x) {
  const auto d = static_cast<int64_t>(x.size());
  Numbers result(x.size());
  for (int64_t i = 0; i < d; ++i) {
    for (int64_t j = 0; j < d; ++j) {
      result[static_cast<std::size_t>(i)] += h[at(i, j, d)] * x[static_cast<std::size_t>(j)];
    }
  }
  return result;
}

void expect_near(const Numbers& actual, const Numbers& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], tolerance) << i;
  }
}

TEST(Packed, TheUpperTriangleRowByRow) {
  EXPECT_EQ(packed_size(1), 1);
  EXPECT_EQ(packed_size(4), 10);
  int64_t expected = 0;
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = i; j < 4; ++j) EXPECT_EQ(packed_index(i, j, 4), expected++);
  }
  // [[1, 2], [2, 4]]: 1 + 2 * 4 + 16
  EXPECT_DOUBLE_EQ(frobenius_norm(Numbers{1, 2, 4}, 2), 5);
}

TEST(CompressRank, KeepsTheEigenvaluesLargestInMagnitude) {
  const Numbers values{0.5, -4, 3, -0.25, 2, 0};
  for (const int64_t r : {1, 2, 3, 5}) {
    Numbers kept = values;
    for (double& value : kept) {
      int64_t larger = 0;
      for (const double other : values) larger += std::abs(other) > std::abs(value) ? 1 : 0;
      if (larger >= r) value = 0;
    }
    Numbers compressed = with_eigenvalues(values);
    compress_rank(compressed, 6, r);
    expect_near(compressed, with_eigenvalues(kept), 1e-12);
  }
}

TEST(CompressRank, AllRanksLeaveTheMatrixAlone) {
  for (const int64_t d : {1, 2, 7}) {
    const Numbers matrix = random_symmetric(d, 1);
    Numbers whole = matrix;
    compress_rank(whole, d, d);
    EXPECT_EQ(whole, matrix);
  }
}

TEST(CompressTop, KeepsTheLargestEntriesAndTheFirstOfEquals) {
  Numbers packed{1, -3, 3, 0.5, 3, -1};
  compress_top(packed, 2);
  EXPECT_EQ(packed, (Numbers{0, -3, 3, 0, 0, 0}));
  Numbers all{1, 2, 3};
  compress_top(all, 7);
  EXPECT_EQ(all, (Numbers{1, 2, 3}));
}

// |C(M)| <= |M| and |C(M) - M|^2 <= (1 - delta) |M|^2; top-k also where off-diagonal entries,
// which count twice, are dropped.
TEST(Compressors, ContractAsTheySay) {
  for (const int64_t d : {1, 2, 5, 13}) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      Numbers matrix = random_symmetric(d, seed);
      if (seed == 5) std::fill(matrix.begin(), matrix.end(), 1.0);
      const double norm = frobenius_norm(matrix, d);
      for (int64_t r = 1; r <= d; ++r) {
        Numbers rank = matrix, top = matrix;
        compress_rank(rank, d, r);
        compress_top(top, r);
        const auto dd = static_cast<double>(d), rr = static_cast<double>(r);
        EXPECT_LE(frobenius_norm(rank, d), norm * (1 + 1e-12));
        EXPECT_LE(frobenius_norm(difference(rank, matrix), d),
                  norm * std::sqrt(1 - rr / dd) + 1e-12 * norm);
        EXPECT_LE(frobenius_norm(top, d), norm);
        EXPECT_LE(frobenius_norm(difference(top, matrix), d),
                  norm * std::sqrt(1 - rr / (dd * dd)) + 1e-12 * norm);
      }
    }
  }
}

TEST(NewtonStep, SolvesTheShiftedSystem) {
  const Numbers h = with_eigenvalues({3, -0.5, 0.25, 7});
  const Numbers g{1, -2, 3, 0.5};
  const Numbers x = shifted_newton_direction(h, 0.75, g);
  Numbers back = product(h, x);
  for (std::size_t i = 0; i < back.size(); ++i) back[i] += 0.75 * x[i];
  expect_near(back, g, 1e-12);
}

TEST(NewtonStep, RefusesWhatIsNotPositiveDefinite) {
  const Numbers h = with_eigenvalues({3, -0.5, 0.25, 7});
  for (const double shift : {0.0, 0.25}) {
    expect_error<InvalidArgument>(
        [&] {
          shifted_newton_direction(h, shift, Numbers{1, 1, 1, 1});
        },
        {"not positive definite", "client.weight-decay", "client.safeguard"});
  }
}

TEST(NewtonStep, ProjectionRaisesSmallEigenvaluesOnly) {
  const Numbers g{1, -2, 3, 0.5};
  const Numbers x = projected_newton_direction(with_eigenvalues({3, -0.5, 0.25, 7}), 1.5, g);
  expect_near(product(with_eigenvalues({3, 1.5, 1.5, 7}), x), g, 1e-12);
}

}  // namespace
}  // namespace hanse
