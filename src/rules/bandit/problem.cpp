#include "hanse/rules/bandit/problem.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/base/random.hpp"

namespace hanse {

namespace {

using std::numbers::e;
using std::numbers::pi;

// -sum_i alpha_i exp(-sum_j A_ij (x_j - P_ij)^2) on [0, 1]^6 (Dixon and Szego 1978); the least
// value is -3.32237.
double hartmann(std::span<const double> x) {
  constexpr double kAlpha[4] = {1.0, 1.2, 3.0, 3.2};
  constexpr double kA[4][6] = {{10, 3, 17, 3.5, 1.7, 8},
                               {0.05, 10, 17, 0.1, 8, 14},
                               {3, 3.5, 1.7, 10, 17, 8},
                               {17, 8, 0.05, 10, 0.1, 14}};
  constexpr double kP[4][6] = {{1312, 1696, 5569, 124, 8283, 5886},
                               {2329, 4135, 8307, 3736, 1004, 9991},
                               {2348, 1451, 3522, 2883, 3047, 6650},
                               {4047, 8828, 8732, 5743, 1091, 381}};
  double sum = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    double exponent = 0;
    for (std::size_t j = 0; j < 6; ++j) {
      const double apart = x[j] - 1e-4 * kP[i][j];
      exponent += kA[i][j] * apart * apart;
    }
    sum -= kAlpha[i] * std::exp(-exponent);
  }
  return sum;
}

// 0.1 sum cos(5 pi x_i) - sum x_i^2 on [-1, 1]^8 (Breiman and Cutler 1993); the largest value is
// 0.8.
double cosine(std::span<const double> x) {
  double sum = 0;
  for (const double value : x) sum += 0.1 * std::cos(5 * pi * value) - value * value;
  return sum;
}

// (x2 - 5.1 x1^2 / (4 pi^2) + 5 x1 / pi - 6)^2 + 10 (1 - 1 / (8 pi)) cos x1 + 10 on [-5, 10] x
// [0, 15] (Dixon and Szego 1978); the least value is 0.397887.
double branin(std::span<const double> point) {
  const double x = 15 * point[0] - 5;
  const double y = 15 * point[1];
  const double root = y - 5.1 / (4 * pi * pi) * x * x + 5 / pi * x - 6;
  return root * root + 10 * (1 - 1 / (8 * pi)) * std::cos(x) + 10;
}

// -20 exp(-0.2 sqrt(mean x_i^2)) - exp(mean cos(2 pi x_i)) + 20 + e on [-32.768, 32.768]^d (Ackley
// 1987); the least value is 0.
double ackley(std::span<const double> point) {
  double squares = 0;
  double cosines = 0;
  for (const double u : point) {
    const double x = 32.768 * (2 * u - 1);
    squares += x * x;
    cosines += std::cos(2 * pi * x);
  }
  const auto d = static_cast<double>(point.size());
  return -20 * std::exp(-0.2 * std::sqrt(squares / d)) - std::exp(cosines / d) + 20 + e;
}

// 10 d + sum (x_i^2 - 10 cos(2 pi x_i)) on [-5.12, 5.12]^d (Rastrigin 1974); the least value is 0.
double rastrigin(std::span<const double> point) {
  double sum = 0;
  for (const double u : point) {
    const double x = 5.12 * (2 * u - 1);
    sum += 10 + x * x - 10 * std::cos(2 * pi * x);
  }
  return sum;
}

}  // namespace

const std::vector<TestFunction>& test_functions() {
  static const std::vector<TestFunction> functions{
      {"hartmann-6", "Hartmann's function on [0, 1]^6", 6, 0, hartmann},
      {"cosine-8", "the cosine mixture on [-1, 1]^8", 8, -1, cosine},
      {"branin", "Branin's function on the unit square", 2, 0, branin},
      {"ackley", "Ackley's function on the unit cube", 0, 0, ackley},
      {"rastrigin", "Rastrigin's function on the unit cube", 0, 0, rastrigin}};
  return functions;
}

Arms draw_arms(const std::string& function, int64_t arms, int64_t inputs, bool negate,
               uint64_t seed) {
  if (arms < 2) {
    throw InvalidArgument(fmt::format("{} arms, at least 2 are needed", arms), "bandit.count");
  }
  const auto& known = test_functions();
  const auto& chosen = *std::find_if(known.begin(), known.end(),
                                     [&](const auto& other) { return other.name == function; });
  Arms drawn{.inputs = chosen.inputs > 0 ? chosen.inputs : inputs};
  RandomStream stream(seed, Purpose::kArms);
  std::vector<double> point(static_cast<std::size_t>(drawn.inputs));
  for (int64_t a = 0; a < arms; ++a) {
    for (double& u : point) u = chosen.low + (1 - chosen.low) * stream.uniform();
    drawn.points.insert(drawn.points.end(), point.begin(), point.end());
    const double value = chosen.value(point);
    drawn.values.push_back(negate ? -value : value);
  }
  return drawn;
}

}  // namespace hanse
