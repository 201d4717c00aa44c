#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "hanse/base/products.hpp"
#include "hanse/base/random.hpp"

namespace hanse {
namespace {

using Row = std::vector<float>;

// Within a lane, about one lane, about a block of 4096, and several blocks with a tail.
constexpr int64_t kSizes[] = {0, 1, 31, 32, 33, 4095, 4096, 4097, 9000};

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

TEST(InnerProducts, AddTheBitsOfOnePairAtATimeAndLeaveKnownOnes) {
  for (const int64_t n : kSizes) {
    const auto rows = random_rows(11, n);
    std::vector<const float*> views;
    for (const Row& row : rows) views.push_back(row.data());
    const std::size_t size = rows.size();
    for (std::size_t known = 0; known <= size; ++known) {
      std::vector<double> gram(size * size);
      add_inner_products(views, known, n, gram);
      mirror(gram, size);
      for (std::size_t i = 0; i < size; ++i) {
        for (std::size_t j = 0; j < size; ++j) {
          const bool left = i < known && j < known;
          EXPECT_EQ(gram[i * size + j], left ? 0 : inner_product(rows[i], rows[j]))
              << n << ": " << i << ", " << j << " of " << known;
        }
      }
    }
  }
}

// A second addition goes on top of the first.
TEST(InnerProducts, AddToWhatIsThere) {
  const Row a{1, 2, 3};
  const Row b{4, 5, 6};
  const std::vector<const float*> views{a.data(), b.data()};
  std::vector<double> gram{100, 200, 300, 400};
  add_inner_products(views, 0, 3, gram);
  EXPECT_EQ(gram, (std::vector<double>{114, 200, 332, 477}));
}

}  // namespace
}  // namespace hanse
