#include "hanse/rules/privacy/loss_distribution.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>
#include <vector>

#include <unsupported/Eigen/FFT>

#include "hanse/base/index.hpp"

namespace hanse {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kMostLoss = 600;
constexpr double kReach = 12;  // deviations: beyond them is less than 2^-108
constexpr int64_t kMostCells = int64_t{1} << 22;

// P(a < N < b) for a standard normal N, without cancellation in either tail.
double normal_between(double a, double b) {
  const auto above = [](double x) { return 0.5 * std::erfc(x / std::numbers::sqrt2); };
  return a > 0 ? above(a) - above(b) : above(-b) - above(-a);
}

// The losses k h of one round with their probabilities, and the probability of an infinite one.
struct Losses {
  int64_t first = 0;
  std::vector<double> mass;  // of first, first + 1, ...
  double infinite = 0;

  // ln of the mean of exp(s loss).
  double log_moment(double s, double h) const {
    double top = -kInfinity;
    for (std::size_t i = 0; i < mass.size(); ++i) {
      if (mass[i] > 0) top = std::max(top, std::log(mass[i]) + s * loss(i, h));
    }
    double sum = 0;
    for (std::size_t i = 0; i < mass.size(); ++i) {
      if (mass[i] > 0) sum += std::exp(std::log(mass[i]) + s * loss(i, h) - top);
    }
    return top + std::log(sum);
  }
  double loss(std::size_t i, double h) const {
    return h * static_cast<double>(first + static_cast<int64_t>(i));
  }
};

// With y the noise or 1 more, in deviations s: the law with the client, (1-q) N(0, s) + q N(1, s),
// the one without, N(0, s), and where ln of their ratio takes a value.
class OneRound {
 public:
  OneRound(double deviation, double rate) : deviation_(deviation), rate_(rate) {}

  double with(double a, double b) const {
    return (1 - rate_) * without(a, b) +
           rate_ * normal_between((a - 1) / deviation_, (b - 1) / deviation_);
  }
  double without(double a, double b) const {
    return normal_between(a / deviation_, b / deviation_);
  }
  // The y at which ln(with / without) is `ratio`; -infinity below all of them.
  double at(double ratio) const {
    double exponent = ratio - std::log(rate_);
    if (rate_ < 1 && ratio < kMostLoss) {
      const double over = std::expm1(ratio) + rate_;
      exponent = over > 0 ? std::log(over / rate_) : -kInfinity;
    }
    return deviation_ * deviation_ * exponent + 0.5;
  }
  double ratio(double y) const {
    const double exponent = (2 * y - 1) / (2 * deviation_ * deviation_);
    if (rate_ == 1 || exponent > kMostLoss) return exponent + std::log(rate_);
    return std::log1p(rate_ * std::expm1(exponent));
  }
  double low() const { return -kReach * deviation_; }
  double high() const { return 1 + kReach * deviation_; }

 private:
  double deviation_;
  double rate_;
};

// Parts a cell's mass p between its ends k h and (k + 1) h so that the other law keeps its mass q
// too: q = lower e^(-k h) + upper e^(-(k+1) h). The upper end's part, rounded up.
double upper_part(double p, double q, double lower_loss, double h) {
  const double kept = q * std::exp(std::min(lower_loss, kMostLoss));
  return std::clamp((p - kept) / -std::expm1(-h) + 0x1p-50 * p / h, 0.0, p);
}

// Losses when the client is there and was not (`is_removal`), or the other way round.
Losses losses_of(const OneRound& round, bool is_removal, double h) {
  const int64_t least = static_cast<int64_t>(std::floor(round.ratio(round.low()) / h));
  const int64_t most = static_cast<int64_t>(std::ceil(round.ratio(round.high()) / h));
  Losses losses;
  losses.first = is_removal ? least : -most;
  losses.mass.assign(to_index(most - least + 1), 0.0);
  const auto at = [&](int64_t loss) -> double& {
    return losses.mass[to_index(loss - losses.first)];
  };
  double y = round.at(h * static_cast<double>(least));
  if (is_removal) {
    at(least) = round.with(-kInfinity, y);
  } else {
    losses.infinite = round.without(-kInfinity, y);
  }
  for (int64_t k = least; k < most; ++k) {
    const double next = round.at(h * static_cast<double>(k + 1));
    const double with = round.with(y, next), without = round.without(y, next);
    const int64_t lower = is_removal ? k : -(k + 1);
    const double mass = is_removal ? with : without;
    const double upper =
        upper_part(mass, is_removal ? without : with, h * static_cast<double>(lower), h);
    at(lower + 1) += upper;
    at(lower) += mass - upper;
    y = next;
  }
  if (is_removal) {
    losses.infinite = round.with(y, kInfinity);
  } else {
    at(-most) += round.without(y, kInfinity);
  }
  return losses;
}

struct Part {
  Losses losses;
  int64_t rounds;
};

// A loss that the sum exceeds (`up`), or falls below, with probability `tail` at most (Chernoff).
double reach(const std::vector<Part>& parts, double h, double tail, bool up) {
  double best = kInfinity;
  for (double s = 0x1p-10; s <= 0x1p10; s *= 2) {
    double moments = -std::log(tail);
    for (const Part& part : parts) {
      moments += static_cast<double>(part.rounds) * part.losses.log_moment(up ? s : -s, h);
    }
    best = std::min(best, moments / s);
  }
  return up ? best : -best;
}

using Complex = std::complex<double>;

// The law of the sum, modulo its length.
std::vector<double> composed(const std::vector<Part>& parts, int64_t length) {
  Eigen::FFT<double> transform;
  std::vector<Complex> product(to_index(length), Complex(1));
  for (const Part& part : parts) {
    std::vector<double> law(to_index(length), 0.0);
    for (std::size_t i = 0; i < part.losses.mass.size(); ++i) {
      const int64_t k = (part.losses.first + static_cast<int64_t>(i)) % length;
      law[to_index(k < 0 ? k + length : k)] += part.losses.mass[i];
    }
    std::vector<Complex> powers;
    transform.fwd(powers, law);
    for (std::size_t i = 0; i < product.size(); ++i) {
      Complex square = powers[i];
      for (int64_t left = part.rounds; left > 0; left /= 2, square *= square) {
        if (left % 2 == 1) product[i] *= square;
      }
    }
  }
  std::vector<double> law;
  transform.inv(law, product);
  return law;
}

// The least epsilon >= 0 with sum over losses of mass (1 - e^(epsilon - loss)) <= budget, where
// `law` has the losses `first`, ..., `last` modulo its length.
double least_epsilon(const std::vector<double>& law, int64_t first, double h, double budget) {
  if (budget <= 0) return kInfinity;
  const auto length = static_cast<int64_t>(law.size());
  double above = 0, discounted = 0;  // sums of mass and of mass e^-loss
  for (int64_t k = first + length - 1; k > 0 && k >= first; --k) {
    const double loss = h * static_cast<double>(k);
    const double mass = std::max(law[to_index((k % length + length) % length)], 0.0);
    above += mass;
    discounted += mass * std::exp(-loss);
    if (above - std::exp(loss - h) * discounted > budget) {
      return std::max(std::log((above - budget) / discounted), 0.0);
    }
  }
  return 0;
}

double epsilon_one_way(std::span<const GaussianRounds> rounds, double delta, bool is_removal) {
  double h = 0x1p-13;
  for (const GaussianRounds& group : rounds) {
    const OneRound round(group.deviation, group.rate);
    const double range = round.ratio(round.high()) - round.ratio(round.low());
    while (range / h > static_cast<double>(kMostCells) / 4) h *= 2;
  }
  const double tail = delta * 0x1p-20;
  for (;; h *= 2) {
    std::vector<Part> parts;
    double infinite = 0, count = 0;
    for (const GaussianRounds& group : rounds) {
      const OneRound round(group.deviation, group.rate);
      parts.push_back({losses_of(round, is_removal, h), group.rounds});
      infinite += static_cast<double>(group.rounds) * parts.back().losses.infinite;
      count += static_cast<double>(group.rounds);
    }
    const double high = reach(parts, h, tail, true), low = reach(parts, h, tail, false);
    if (!(high < kMostLoss)) return kInfinity;
    const double cells = std::max((high - low) / h, 1.0) + 2;
    if (cells > static_cast<double>(kMostCells)) continue;
    const int bits = static_cast<int>(std::ceil(std::log2(cells)));
    const double rounding = (count + 1) * static_cast<double>(bits) * 0x1p-50;
    const auto first = static_cast<int64_t>(std::floor(low / h));
    const auto law = composed(parts, int64_t{1} << bits);
    return least_epsilon(law, first, h, delta - infinite - 2 * tail - rounding);
  }
}

// ln of P(N > x) for a standard normal N; where erfc ends, by Mills' ratio, to 2^-42.
double log_above(double x) {
  if (x < 37) return std::log(0.5 * std::erfc(x / std::numbers::sqrt2));
  const double y = 1 / (x * x);
  return -x * x / 2 - std::log(x * std::sqrt(2 * std::numbers::pi)) +
         std::log1p(y * (-1 + y * (3 + y * (-15 + y * 105))));
}

// Together, rounds in which everyone is are one Gaussian whose mean moves by `moved` deviations. It
// is (epsilon, delta)-private iff P(N > e/m - m/2) - e^e P(N > e/m + m/2) <= delta (Balle and Wang
// 2018, Theorem 8), which falls as epsilon rises.
double gaussian_epsilon(double moved, double delta) {
  const auto exceeds = [&](double epsilon) {
    const double first = log_above(epsilon / moved - moved / 2);
    const double second = epsilon + log_above(epsilon / moved + moved / 2);
    constexpr double kRounding = 0x1p-40;  // more than the two may have lost
    return std::exp(first) * (-std::expm1(std::min(second - first, 0.0)) + kRounding) > delta;
  };
  double low = 0, high = 1;
  if (!exceeds(low)) return 0;
  while (exceeds(high)) {
    if (high > kMostLoss) return kInfinity;
    low = high;
    high *= 2;
  }
  while (high - low > 0x1p-40 * high) (exceeds((low + high) / 2) ? low : high) = (low + high) / 2;
  return high;
}

}  // namespace

double loss_distribution_epsilon(std::span<const GaussianRounds> rounds, double delta) {
  const auto is_certain = [](const GaussianRounds& group) { return group.rate == 1; };
  if (std::ranges::all_of(rounds, is_certain)) {
    double squares = 0;
    for (const GaussianRounds& group : rounds) {
      squares += static_cast<double>(group.rounds) / (group.deviation * group.deviation);
    }
    return gaussian_epsilon(std::sqrt(squares) * (1 + 0x1p-40), delta);
  }
  return std::max(epsilon_one_way(rounds, delta, true), epsilon_one_way(rounds, delta, false));
}

}  // namespace hanse
