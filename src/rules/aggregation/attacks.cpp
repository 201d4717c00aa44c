#include "hanse/rules/aggregation/attacks.hpp"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "hanse/base/error.hpp"

namespace hanse {

namespace {

AttackRow row_of(std::size_t honest, double of_mean, double of_deviation, double strength) {
  AttackRow row{std::vector<double>(honest + 2), strength};
  row.coefficients[honest] = of_mean;
  row.coefficients[honest + 1] = of_deviation;
  return row;
}

// a = h + gamma p, p = scale x (row `from` of the Gram matrix).
class Perturbation {
 public:
  Perturbation(const GramView& gram, AttackDirection direction) : gram_(gram), honest_(gram.n - 2) {
    const bool unit = direction == AttackDirection::kUnit;
    from_ = unit ? honest_ : honest_ + 1;
    const double length = std::sqrt(gram(from_, from_));
    scale_ = !(length > 0) ? 0 : unit ? -1 / length : -1;
  }

  double squared_length() const { return scale_ * scale_ * gram_(from_, from_); }
  // p.(h - u_i)
  double along(std::size_t i) const { return scale_ * (gram_(from_, honest_) - gram_(from_, i)); }

  AttackRow row(double gamma) const {
    AttackRow row{std::vector<double>(gram_.n), gamma};
    row.coefficients[honest_] = 1;
    row.coefficients[from_] += gamma * scale_;
    return row;
  }

 private:
  const GramView& gram_;
  std::size_t honest_;
  std::size_t from_;
  double scale_;
};

// The inverse of the standard normal distribution function, by bisection to the last bit.
double normal_quantile(double p) {
  double low = -40, high = 40;
  for (int i = 0; i < 200; ++i) {
    const double middle = low + (high - low) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < p ? low : high) = middle;
  }
  return low + (high - low) / 2;
}

// The larger root of x^2 + 2 b x + c = 0; 0 where rounding leaves none.
double larger_root(double b, double c) { return -b + std::sqrt(std::max(0.0, b * b - c)); }

}  // namespace

AttackRow inner_product_attack(std::size_t honest, double tau) {
  return row_of(honest, -tau, 0, tau);
}

AttackRow mimic_attack(std::size_t honest) {
  AttackRow row = row_of(honest, 0, 0, 1);
  row.coefficients.front() = 1;
  return row;
}

AttackRow little_attack(std::size_t honest, double z) { return row_of(honest, 1, z, z); }

double little_strength(int64_t n, int64_t f) {
  const int64_t supporters = n / 2 + 1 - f;
  if (supporters <= 0 || supporters >= n - f) {
    throw InvalidArgument(
        fmt::format("alie has no strength of its own with {} of {} byzantine", f, n),
        "attack.strength", "give a number");
  }
  return normal_quantile(static_cast<double>(n - f - supporters) / static_cast<double>(n - f));
}

double line_search(const std::function<double(double)>& value, int64_t evaluations) {
  double best = 0;
  double highest = value(best);
  double step = 10;
  bool rises = true;
  for (int64_t used = 1; used < evaluations; ++used) {
    const double point = best + step;
    const double here = value(point);
    const bool better = here > highest;
    if (better) {
      best = point;
      highest = here;
    }
    rises = rises && better;
    step *= rises ? 2 : 0.8;
  }
  return best;
}

std::vector<double> attacked_products(const GramView& gram, std::span<const double> row,
                                      std::size_t f) {
  const std::size_t honest = gram.n - 2;
  const std::size_t n = honest + f;
  std::vector<double> products(n * n);
  const double square = gram.product(row, row);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j)
      products[i * n + j] = i < honest && j < honest ? gram(i, j) : square;
  }
  for (std::size_t i = 0; i < honest; ++i) {
    double product = 0;
    for (std::size_t j = 0; j < gram.n; ++j) product += row[j] * gram(i, j);
    for (std::size_t j = honest; j < n; ++j) products[i * n + j] = products[j * n + i] = product;
  }
  return products;
}

AttackRow optimal_attack(std::size_t honest, OptimalAttack kind, const Displacement& displacement) {
  const auto row = [&](double strength) {
    return kind == OptimalAttack::kLittle ? little_attack(honest, strength)
                                          : inner_product_attack(honest, strength);
  };
  return row(
      line_search([&](double strength) { return displacement(row(strength).coefficients); }));
}

AttackRow min_max_attack(const GramView& gram, AttackDirection direction) {
  const Perturbation p(gram, direction);
  const std::size_t honest = gram.n - 2;
  double radius = 0;  // R^2
  for (std::size_t i = 0; i < honest; ++i) {
    for (std::size_t j = 0; j < i; ++j) radius = std::max(radius, gram.squared_distance(i, j));
  }
  if (!(p.squared_length() > 0)) return p.row(0);
  double gamma = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < honest; ++i) {
    const double b = p.along(i) / p.squared_length();
    const double c = (gram.squared_distance(honest, i) - radius) / p.squared_length();
    gamma = std::min(gamma, larger_root(b, c));
  }
  return p.row(gamma);
}

AttackRow min_sum_attack(const GramView& gram, AttackDirection direction) {
  const Perturbation p(gram, direction);
  const std::size_t honest = gram.n - 2;
  if (!(p.squared_length() > 0)) return p.row(0);
  double largest = 0, own = 0, along = 0;
  for (std::size_t i = 0; i < honest; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < honest; ++j) sum += gram.squared_distance(i, j);
    largest = std::max(largest, sum);
    own += gram.squared_distance(honest, i);
    along += p.along(i);
  }
  // sum_i |h - u_i + gamma p|^2 = own + 2 gamma along + gamma^2 H |p|^2
  const double square = static_cast<double>(honest) * p.squared_length();
  return p.row(larger_root(along / square, (own - largest) / square));
}

}  // namespace hanse
