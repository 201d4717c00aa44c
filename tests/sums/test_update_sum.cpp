#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/aligned.hpp"
#include "hanse/base/random.hpp"
#include "hanse/sums/update_sum.hpp"
#include "sums/fold_kernels.hpp"
#include "support/thread_communicator.hpp"

namespace hanse {
namespace {

using Row = std::vector<float>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kSizes[] = {0, 1, 15, 16, 17, 1000};

bool same_or_nan(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

struct Addend {
  Row row;
  double coefficient;
};

Row random_row(int64_t n, uint64_t key, double spread) {
  RandomStream stream(key, Purpose::kData);
  Row row(static_cast<std::size_t>(n));
  for (float& x : row) x = static_cast<float>(spread * stream.normal());
  return row;
}

std::vector<Addend> addends(int64_t n, int64_t count, const Row& theta) {
  std::vector<Addend> result;
  for (int64_t a = 0; a < count; ++a) {
    Row row = random_row(n, static_cast<uint64_t>(100 + a), 0.1);
    for (std::size_t i = 0; i < row.size(); ++i) row[i] += theta[i];
    result.push_back({row, 0.3 - 0.07 * static_cast<double>(a)});
  }
  return result;
}

// Each addend rounded to 2^-44, added in integers; element by element.
Row slow_sum(const std::vector<Addend>& addends, const Row& theta) {
  Row result;
  for (std::size_t i = 0; i < theta.size(); ++i) {
    int64_t sum = 0;
    for (const auto& [row, coefficient] : addends) {
      const double delta = static_cast<double>(row[i]) - static_cast<double>(theta[i]);
      sum += std::llrint(std::ldexp(delta * coefficient, 44));
    }
    result.push_back(static_cast<float>(std::ldexp(static_cast<double>(sum), -44)));
  }
  return result;
}

void expect_same_bits(const Row& a, const Row& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_TRUE(a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

TEST(UpdateSum, EqualsIntegersForAnyGroupingAndOrder) {
  for (const int64_t n : kSizes) {
    const Row theta = random_row(n, 1, 1);
    auto parts = addends(n, 7, theta);
    const Row expected = slow_sum(parts, theta);
    for (int ranks = 1; ranks <= 4; ++ranks) {
      std::rotate(parts.begin(), parts.begin() + 3, parts.end());
      run_threads(ranks, [&](Communicator& comm) {
        UpdateSum sum(n, 7, Reduction::kExact);
        for (std::size_t a = 0; a < parts.size(); ++a) {
          if (static_cast<int>(a * a) % ranks != comm.rank()) continue;
          Row row = parts[a].row;
          EXPECT_TRUE(sum.fold(row, theta, parts[a].coefficient).in_range);
        }
        sum.reduce(comm, ranks - 1);
        Row out(static_cast<std::size_t>(n), 9);
        sum.take(out);
        if (comm.rank() == ranks - 1) expect_same_bits(out, expected);
      });
    }
  }
}

TEST(UpdateSum, FoldResetsTheRowAndMeasuresIt) {
  for (const auto reduction : {Reduction::kExact, Reduction::kFast}) {
    for (const int64_t n : kSizes) {
      const Row theta = random_row(n, 2, 1);
      Row row = random_row(n, 3, 1);
      double squared = 0;
      for (std::size_t i = 0; i < row.size(); ++i) {
        squared += std::pow(static_cast<double>(row[i]) - static_cast<double>(theta[i]), 2);
      }
      UpdateSum sum(n, 1, reduction);
      const FoldResult result = sum.fold(row, theta, 0.5);
      EXPECT_TRUE(result.in_range);
      // fast takes the difference in float32
      EXPECT_NEAR(result.squared_norm, squared, squared * (sum.limit() > 0 ? 1e-6 : 0));
      expect_same_bits(row, theta);
    }
  }
}

TEST(UpdateSum, WithoutAnOriginTheRowIsTheUpdateAndStays) {
  for (const auto reduction : {Reduction::kExact, Reduction::kFast}) {
    for (const int64_t n : kSizes) {
      const Row zeros(static_cast<std::size_t>(n));
      const Row update = random_row(n, 5, 1);
      Row row = update;
      Row reset = update;
      UpdateSum sum(n, 2, reduction);
      UpdateSum from_zeros(n, 2, reduction);
      const FoldResult told = sum.fold(row, {}, 0.5);
      EXPECT_EQ(told.squared_norm, from_zeros.fold(reset, zeros, 0.5).squared_norm);
      expect_same_bits(row, update);
      Row out(zeros), expected(zeros);
      sum.take(out);
      from_zeros.take(expected);
      expect_same_bits(out, expected);
    }
  }
}

TEST(UpdateSum, ExactNormIsThatOfDoubles) {
  const Row theta{1e-3F, 1, -2};
  Row row{4e-3F, 1.5F, -1};
  UpdateSum sum(3, 1, Reduction::kExact);
  const double first = static_cast<double>(4e-3F) - static_cast<double>(1e-3F);
  EXPECT_DOUBLE_EQ(sum.fold(row, theta, 100).squared_norm, first * first + 0.25 + 1);
}

// Halves round to even, negative ones too; a tail reads and writes nothing behind its end.
TEST(FoldKernel, AllHaveThePlainOnesBits) {
  const FoldKernel plain_one = fold_kernels().back();
  for (std::size_t n = 0; n <= 40; ++n) {
    const Row theta = random_row(41, 7, 1);
    for (const double scale : {1.0, -3.0, 0x1p44, 0x1p51, 0x1p58}) {
      for (const double limit : {0x1p62, 0.5}) {
        for (const float* origin : {theta.data(), static_cast<const float*>(nullptr)}) {
          for (std::size_t variant = 0; variant < 2 * kMostFolded; ++variant) {
            const std::size_t count = 1 + variant / 2;
            const bool is_fresh = variant % 2 == 1;
            SCOPED_TRACE(::testing::Message()
                         << n << " " << scale << " " << limit << " " << count << " " << is_fresh);
            Row rows[] = {random_row(41, n + 9, 1), random_row(41, n + 60, 0.4)};
            if (n > 0) rows[0][n - 1] = theta[n - 1] + 0.5F;
            if (n > 20) rows[1][n - 20] = kNan;
            const auto fold = [&](FoldKernel kernel, Row* of, auto& fixed, FoldSums* sums) {
              const FoldRow both[] = {{of[0].data(), scale}, {of[1].data(), 2 * scale}};
              kernel({both, count}, origin, {fixed.data(), n, limit, is_fresh}, sums);
            };
            Row plain_rows[] = {rows[0], rows[1]};
            std::vector<int64_t, LineAllocator<int64_t>> plain(41, 5);
            FoldSums a[2];
            fold(plain_one, plain_rows, plain, a);
            for (const FoldKernel kernel : fold_kernels()) {
              Row fast_rows[] = {rows[0], rows[1]};
              std::vector<int64_t, LineAllocator<int64_t>> fast(41, 5);
              FoldSums b[2];
              fold(kernel, fast_rows, fast, b);
              EXPECT_EQ(plain, fast);
              for (std::size_t r = 0; r < 2; ++r) {
                EXPECT_EQ(a[r].in_range, b[r].in_range);
                EXPECT_TRUE(std::ranges::equal(a[r].squared, b[r].squared, same_or_nan));
                expect_same_bits(plain_rows[r], fast_rows[r]);
              }
            }
          }
        }
      }
    }
  }
}

// Sums that no cache holds are written past the caches.
TEST(FoldKernel, LargeFreshSums) {
  const std::size_t n = (1 << 20) + 29;
  const Row theta = random_row(static_cast<int64_t>(n), 1, 1);
  const Row row = random_row(static_cast<int64_t>(n), 2, 1);
  const auto folded = [&](FoldKernel kernel) {
    Row of = row;
    std::vector<int64_t, LineAllocator<int64_t>> fixed(n + 8, 5);
    FoldSums sums;
    const FoldRow one{of.data(), 0x1p40};
    kernel({&one, 1}, theta.data(), {fixed.data(), n, 0x1p62, true}, &sums);
    expect_same_bits(of, theta);
    return fixed;
  };
  const auto plain = folded(fold_kernels().back());
  for (const FoldKernel kernel : fold_kernels()) {
    EXPECT_TRUE(plain == folded(kernel));  // and what stands behind them
  }
}

// What an exchange, or clear(), leaves in the memory counts no more: not where the next updates
// come whole or in parts, nor on a rank that has none, nor when nobody has one.
TEST(UpdateSum, RoundsBeginAnew) {
  for (const auto reduction : {Reduction::kExact, Reduction::kFast}) {
    for (const int64_t n : kSizes) {
      run_threads(2, [&](Communicator& comm) {
        const bool first = comm.rank() == 0;
        UpdateSum sum(n, 8, reduction, comm);
        const Row theta = random_row(n, 1, 1);
        const auto exchanged = [&] {
          Row out(theta.size(), 9), model(theta.size());
          sum.exchange(comm, model, [&](int64_t begin, std::span<float> part) {
            std::ranges::copy(part, out.begin() + begin);
          });
          return first ? out : Row(theta.size());
        };
        Row row = random_row(n, 2, 1);
        UpdateSum expected(n, 8, reduction);
        Row same = row, of_one(theta.size());
        expected.fold(same, theta, 0.5);
        expected.take(of_one);
        if (!first) of_one = Row(theta.size());
        const Row again = row;
        const auto add_whole = [&] {
          row = again;
          sum.fold(row, theta, 0.5);
        };
        if (first) add_whole();
        expect_same_bits(exchanged(), of_one);
        if (!first) add_whole();  // by the other rank: rank 0 has none
        expect_same_bits(exchanged(), of_one);
        if (first) {  // in parts
          row = again;
          const std::size_t middle = row.size() / 2;
          const auto parts = std::span(row);
          sum.fold(parts.subspan(middle), std::span(theta).subspan(middle), 0.5,
                   static_cast<int64_t>(middle));
          sum.fold(parts.first(middle), std::span(theta).first(middle), 0.5);
        }
        expect_same_bits(exchanged(), of_one);
        expect_same_bits(exchanged(), Row(theta.size()));  // nobody
        if (first) add_whole();
        sum.clear();
        sum.scale(2);
        expect_same_bits(exchanged(), Row(theta.size()));
        add_whole();
        if (!first) sum.clear();
        sum.reduce(comm, 0);
        Row taken(theta.size(), 9);
        sum.take(taken);
        if (first) expect_same_bits(taken, of_one);
      });
    }
  }
}

// Two rows at once are two rows one after the other.
TEST(UpdateSum, FoldsTwoRowsAsOneAfterTheOther) {
  for (const auto reduction : {Reduction::kExact, Reduction::kFast}) {
    for (const int64_t n : kSizes) {
      for (const Row& theta : {random_row(n, 2, 1), Row()}) {
        const Row first = random_row(n, 3, 1), second = random_row(n, 4, 2);
        UpdateSum sum(n, 2, reduction), expected(n, 2, reduction);
        Row rows[] = {first, second}, apart[] = {first, second};
        const UpdateSum::WeightedRow both[] = {{rows[0], 0.5}, {rows[1], -0.25}};
        const auto found = sum.fold(both, theta);
        for (std::size_t r = 0; r < 2; ++r) {
          const FoldResult one = expected.fold(apart[r], theta, both[r].coefficient);
          EXPECT_EQ(found[r].squared_norm, one.squared_norm);
          EXPECT_TRUE(found[r].in_range && one.in_range);
          expect_same_bits(rows[r], apart[r]);
        }
        Row out(static_cast<std::size_t>(n)), expected_out(static_cast<std::size_t>(n));
        sum.take(out);
        expected.take(expected_out);
        expect_same_bits(out, expected_out);
      }
    }
  }
}

// A row that does not fit says so; the other does not.
TEST(UpdateSum, NamesWhichOfTwoRowsIsOutOfRange) {
  for (const auto reduction : {Reduction::kExact, Reduction::kFast}) {
    for (std::size_t bad = 0; bad < 2; ++bad) {
      Row rows[] = {Row(19, 1), Row(19, 1)};
      rows[bad][7] = kNan;
      UpdateSum sum(19, 2, reduction);
      const UpdateSum::WeightedRow both[] = {{rows[0], 0.5}, {rows[1], 0.5}};
      const auto found = sum.fold(both, Row(19));
      EXPECT_EQ(found[bad].in_range, false);
      EXPECT_EQ(found[1 - bad].in_range, true);
    }
  }
}

TEST(UpdateSum, TakeAndClearLeaveZeros) {
  for (const auto reduction : {Reduction::kExact, Reduction::kFast}) {
    const Row theta(17);
    UpdateSum sum(17, 2, reduction);
    Row row(17, 2), out(17);
    sum.fold(row, theta, 0.5);
    sum.take(out);
    EXPECT_EQ(out, Row(17, 1));
    sum.take(out);
    EXPECT_EQ(out, Row(17));
    row = Row(17, 2);
    sum.fold(row, theta, 0.5);
    sum.clear();
    sum.take(out);
    EXPECT_EQ(out, Row(17));
  }
}

TEST(UpdateSum, FlagsWhatIsNotFiniteAtEveryPosition) {
  for (const auto reduction : {Reduction::kExact, Reduction::kFast}) {
    for (const int64_t n : {1, 15, 16, 17, 33}) {
      const Row theta = random_row(n, 4, 1);
      for (std::size_t at = 0; at < theta.size(); ++at) {
        for (const float bad : {kNan, kInf, -kInf}) {
          UpdateSum sum(n, 3, reduction);
          Row row = random_row(n, 5, 1);
          row[at] = bad;
          EXPECT_FALSE(sum.fold(row, theta, 0.5).in_range) << bad << " at " << at << " of " << n;
          expect_same_bits(row, theta);
        }
      }
    }
  }
}

TEST(UpdateSum, FlagsAWeightThatMakesAnAddendInfinite) {
  for (const auto reduction : {Reduction::kExact, Reduction::kFast}) {
    for (const double bad : {std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity(), 1e30}) {
      for (const int64_t n : {1, 16}) {
        const Row theta(static_cast<std::size_t>(n));
        Row row(static_cast<std::size_t>(n), 1e20F);
        UpdateSum sum(n, 1, reduction);
        EXPECT_FALSE(sum.fold(row, theta, bad).in_range) << bad;
      }
    }
  }
}

TEST(UpdateSum, OutOfRangeIsJustAboveTheLimit) {
  for (const int64_t count : {1, 2, 7, 1000}) {
    UpdateSum sum(20, count, Reduction::kExact);
    const double exact = 0x1p63 / static_cast<double>(count) * 0x1p-44;
    EXPECT_LE(sum.limit(), exact);
    EXPECT_GE(sum.limit(), exact / 4);
    const Row theta(20);
    for (std::size_t at = 0; at < 20; ++at) {
      for (const float sign : {1.0F, -1.0F}) {
        Row row(20);
        row[at] = sign;
        EXPECT_TRUE(sum.fold(row, theta, sum.limit()).in_range);
        row[at] = sign;
        EXPECT_FALSE(sum.fold(row, theta, std::nextafter(sum.limit(), kInf)).in_range);
      }
    }
  }
}

TEST(UpdateSum, TheMostAddendsAtTheLimitDoNotWrap) {
  for (const int64_t count : {1, 2, 3, 7, 1000}) {
    UpdateSum sum(17, count, Reduction::kExact);
    const Row theta(17);
    for (int64_t a = 0; a < count; ++a) {
      Row row(17, 1);
      row[16] = -1;
      sum.fold(row, theta, sum.limit());
    }
    Row out(17);
    sum.take(out);
    const double total = sum.limit() * static_cast<double>(count);
    for (std::size_t i = 0; i < 17; ++i) {
      EXPECT_FLOAT_EQ(out[i], static_cast<float>(i == 16 ? -total : total));
    }
  }
}

// Two addends that a float32 sum would lose, and one that it would round.
TEST(UpdateSum, KeepsSmallAddendsBesideLargeOnes) {
  const Row theta(1);
  UpdateSum sum(1, 4, Reduction::kExact);
  for (const float value : {1000.0F, 0x1p-30F, -1000.0F, 0x1p-44F}) {
    Row row{value};
    sum.fold(row, theta, 1);
  }
  Row out(1);
  sum.take(out);
  EXPECT_EQ(out[0], 0x1p-30F + 0x1p-44F);
}

TEST(UpdateSum, FastIsCloseToExact) {
  for (const int64_t n : kSizes) {
    const Row theta = random_row(n, 6, 1);
    const auto parts = addends(n, 5, theta);
    const Row exact = slow_sum(parts, theta);
    run_threads(3, [&](Communicator& comm) {
      UpdateSum sum(n, 5, Reduction::kFast);
      for (std::size_t a = static_cast<std::size_t>(comm.rank()); a < parts.size(); a += 3) {
        Row row = parts[a].row;
        sum.fold(row, theta, parts[a].coefficient);
      }
      sum.reduce(comm, 0);
      Row out(static_cast<std::size_t>(n));
      sum.take(out);
      for (std::size_t i = 0; comm.rank() == 0 && i < out.size(); ++i) {
        EXPECT_NEAR(out[i], exact[i], 1e-6);
      }
    });
  }
}

}  // namespace
}  // namespace hanse
