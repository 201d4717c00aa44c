#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/products.hpp"
#include "hanse/base/random.hpp"

namespace hanse {
namespace {

using Row = std::vector<float>;

// Within a lane, about one lane, about a block of 8192, and several blocks with a tail.
constexpr int64_t kSizes[] = {0, 1, 31, 32, 33, 8191, 8192, 8193, 17000};

std::vector<Row> random_rows(std::size_t count, int64_t n) {
  RandomStream stream(5, Purpose::kData);
  std::vector<Row> rows(count, Row(static_cast<std::size_t>(n)));
  for (Row& row : rows) {
    for (float& value : row) value = static_cast<float>(stream.normal());
  }
  return rows;
}

TEST(InnerProduct, EqualsASumInLongDoubles) {
  for (const int64_t n : kSizes) {
    const auto rows = random_rows(2, n);
    long double expected = 0;
    long double lengths = 0;
    for (std::size_t i = 0; i < rows[0].size(); ++i) {
      const long double product = static_cast<long double>(rows[0][i]) * rows[1][i];
      expected += product;
      lengths += std::abs(product);
    }
    EXPECT_NEAR(inner_product(rows[0], rows[1]), static_cast<double>(expected),
                1e-14 * static_cast<double>(lengths));
  }
}

std::vector<const float*> views_of(const std::vector<Row>& rows) {
  std::vector<const float*> views;
  for (const Row& row : rows) views.push_back(row.data());
  return views;
}

TEST(InnerProducts, AddTheBitsOfOnePairAtATime) {
  const auto all = random_rows(11, 17000);
  for (const int64_t n : kSizes) {
    for (std::size_t split = 0; split <= all.size(); ++split) {
      const auto views = views_of(all);
      const auto left = std::span(views).first(split);
      const auto right = std::span(views).subspan(split);
      std::vector<double> table(left.size() * right.size(), 0.5);
      add_inner_products(left, right, n, table);
      const auto length = static_cast<std::size_t>(n);
      for (std::size_t i = 0; i < left.size(); ++i) {
        for (std::size_t j = 0; j < right.size(); ++j) {
          const double expected =
              inner_product(std::span(left[i], length), std::span(right[j], length));
          // More than one block is not added to the table as one number.
          EXPECT_NEAR(table[i * right.size() + j], 0.5 + expected, 1e-11) << n << ": " << i << j;
          if (n <= 8192) {
            EXPECT_EQ(table[i * right.size() + j], 0.5 + expected);
          }
        }
      }
    }
  }
}

TEST(Gram, HasTheBitsOfOnePairAtATime) {
  for (const int64_t n : kSizes) {
    for (const int64_t size : {1, 2, 4, 5, 11}) {
      const auto rows = random_rows(size, n);
      std::vector<double> gram(rows.size() * rows.size());
      add_gram(views_of(rows), n, gram);
      mirror(gram, rows.size());
      for (std::size_t i = 0; i < rows.size(); ++i) {
        for (std::size_t j = 0; j < rows.size(); ++j) {
          EXPECT_EQ(gram[i * rows.size() + j], inner_product(rows[i], rows[j])) << i << j;
        }
      }
    }
  }
}

// A second addition goes on top of the first.
TEST(Gram, AddsToWhatIsThere) {
  const Row a{1, 2, 3};
  const Row b{4, 5, 6};
  const std::vector<const float*> views{a.data(), b.data()};
  std::vector<double> gram{100, 200, 300, 400};
  add_gram(views, 3, gram);
  mirror(gram, 2);
  EXPECT_EQ(gram, (std::vector<double>{114, 332, 332, 477}));
}

}  // namespace
}  // namespace hanse
