#include "hanse/rules/privacy/loss_distribution.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>
#include <utility>
#include <vector>

#include <unsupported/Eigen/FFT>

#include "hanse/base/index.hpp"
#include "round_losses.hpp"

namespace hanse {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kMostLoss = 600;
constexpr double kTail = 0x1p-26;               // of a tilted sum beyond its range
constexpr double kOfDelta = 0x1p-20;            // how much of delta may become infinite
constexpr double kTransformRounding = 0x1p-49;  // of a transform, for each bit of its length

using Complex = std::complex<double>;
using Transform = Eigen::FFT<double>;  // keeps what it computes for a length

// ln of the most of e^(-s x) (1 - e^-x) over x > 0.
double log_peak(double s) { return s * std::log(s) - (1 + s) * std::log1p(s); }

// Rounds of one kind, tilted by e^(s loss).
struct Group {
  RoundLosses losses;
  std::vector<double> logs;  // of the masses
  double rounds = 1;

  Group(RoundLosses found, int64_t count)
      : losses(std::move(found)), rounds(static_cast<double>(count)) {
    for (const double mass : losses.mass) logs.push_back(std::log(mass));
  }
};

// The losses of all rounds together, before they are added up.
class Total {
 public:
  Total(std::span<const GaussianRounds> rounds, double delta, bool is_removal, const LossGrid& grid)
      : h_(grid.grid) {
    double count = 0;
    for (const GaussianRounds& group : rounds) count += static_cast<double>(group.rounds);
    for (const GaussianRounds& group : rounds) {
      groups_.emplace_back(
          losses_of(group.deviation, group.rate, is_removal, kOfDelta * delta / count, grid),
          group.rounds);
      infinite_ += groups_.back().rounds * groups_.back().losses.infinite;
      slack_ += groups_.back().rounds * groups_.back().losses.slack;
    }
  }

  const std::vector<Group>& groups() const { return groups_; }
  double grid() const { return h_; }
  double infinite() const { return infinite_; }
  double slack() const { return slack_; }

  // ln of the mean of e^(s loss) of one round; of all rounds together.
  double log_moment(const Group& group, double s) const {
    double top = -kInfinity, sum = 0;
    for (std::size_t i = 0; i < group.logs.size(); ++i) top = std::max(top, tilted(group, i, s));
    for (std::size_t i = 0; i < group.logs.size(); ++i) {
      sum += std::exp(tilted(group, i, s) - top);
    }
    return top + std::log(sum);
  }
  double log_moment(double s) const {
    double sum = 0;
    for (const Group& group : groups_) sum += group.rounds * log_moment(group, s);
    return sum;
  }

  // Mean and deviation of the sum of losses, tilted by e^(s loss).
  std::pair<double, double> mean_and_deviation(double s) const {
    double mean = 0, variance = 0;
    for (const Group& group : groups_) {
      const double log = log_moment(group, s);
      double first = 0, second = 0;
      for (std::size_t i = 0; i < group.logs.size(); ++i) {
        const double mass = std::exp(tilted(group, i, s) - log);
        first += mass * loss(group, i);
        second += mass * loss(group, i) * loss(group, i);
      }
      mean += group.rounds * first;
      variance += group.rounds * std::max(second - first * first, 0.0);
    }
    return {mean, std::sqrt(variance)};
  }

  // The probability that the tilted sum is at `end` or beyond it, by Chernoff's bound at s + r:
  // above for r > 0, else below.
  double beyond(double s, double log_moment_at_s, double r, double end) const {
    return std::exp(log_moment(s + r) - log_moment_at_s - r * end);
  }

  double loss(const Group& group, std::size_t i) const {
    return h_ * static_cast<double>(group.losses.at[i]);
  }
  double tilted(const Group& group, std::size_t i, double s) const {
    return group.logs[i] + s * loss(group, i);
  }

 private:
  double h_;
  std::vector<Group> groups_;
  double infinite_ = 0, slack_ = 0;
};

// The place of the least value of a function that falls and then rises, to 2^-9 of the interval.
template <class F>
double least_place(double low, double high, F at) {
  constexpr double kGolden = 0.6180339887498949;
  double left = high - kGolden * (high - low), right = low + kGolden * (high - low);
  double at_left = at(left), at_right = at(right);
  for (int i = 0; i < 13; ++i) {
    if (at_left <= at_right) {
      high = std::exchange(right, left);
      at_right = at_left;
      at_left = at(left = high - kGolden * (high - low));
    } else {
      low = std::exchange(left, right);
      at_left = at_right;
      at_right = at(right = low + kGolden * (high - low));
    }
  }
  return (low + high) / 2;
}

// How the sum of losses is tilted, and the range in which it then is.
struct Tilt {
  double s = 1;
  double low = 0, high = 0;
  double down = -1, up = 1;  // of Chernoff's bounds for what is outside
};

Tilt tilt_of(const Total& total, double delta) {
  const double deviation = std::max(total.mean_and_deviation(0).second, total.grid());
  const double first = std::log(std::sqrt(-2 * std::log(delta)) / deviation);
  Tilt tilt;
  tilt.s = std::exp(least_place(first - 9, first + 3, [&](double log) {
    const double s = std::exp(log);
    return (total.log_moment(s) + log_peak(s) - std::log(delta)) / s;
  }));
  const auto [mean, spread] = total.mean_and_deviation(tilt.s);
  const double tilted = std::max(spread, total.grid());
  const double base = total.log_moment(tilt.s), reach = std::sqrt(-2 * std::log(kTail)) / tilted;
  const auto end = [&](double r) {
    return (total.log_moment(tilt.s + r) - base - std::log(kTail)) / r;
  };
  tilt.low = -kInfinity;
  tilt.high = kInfinity;
  for (const double part : {0.125, 0.25, 0.5, 1.0, 1.5}) {
    const double r = part * reach;
    if (const double high = end(r); high < tilt.high) tilt.high = high, tilt.up = r;
    if (const double low = end(-r); low > tilt.low) tilt.low = low, tilt.down = -r;
  }
  tilt.low = std::min(tilt.low, mean - tilted);
  tilt.high = std::max(tilt.high, mean + tilted);
  return tilt;
}

double norm_of(const std::vector<double>& row) {
  double squares = 0;
  for (const double x : row) squares += x * x;
  return std::sqrt(squares);
}

// The law of the tilted sum, at places k modulo `length`, and a bound of its error in the 2-norm.
struct Law {
  std::vector<double> mass;
  double error = 0;
};

Law composed(const Total& total, double s, int bits, Transform& transform) {
  const std::size_t length = std::size_t{1} << bits;
  const double rounding = kTransformRounding * bits;
  std::vector<Complex> product(length / 2 + 1, Complex(1)), powers(length / 2 + 1);
  std::vector<double> row(length);
  double count = 0, error = 0;
  for (const Group& group : total.groups()) {
    const double log = total.log_moment(group, s);
    std::ranges::fill(row, 0.0);
    for (std::size_t i = 0; i < group.logs.size(); ++i) {
      const auto k = static_cast<std::size_t>(group.losses.at[i]) & (length - 1);
      row[k] += std::exp(total.tilted(group, i, s) - log);
    }
    transform.fwd(powers.data(), row.data(), static_cast<Eigen::Index>(length));
    for (std::size_t i = 0; i < product.size(); ++i) {
      Complex square = powers[i];
      if (const double size = std::abs(square); size > 1) square /= size;
      for (auto left = static_cast<int64_t>(group.rounds); left > 0; left /= 2) {
        if (left % 2 == 1) product[i] *= square;
        square *= square;
      }
    }
    count += group.rounds;
    error += group.rounds * rounding * norm_of(row);
  }
  Law law{std::move(row), 0};
  transform.inv(law.mass.data(), product.data(), static_cast<Eigen::Index>(length));
  law.error = error + 2 * (count * kTransformRounding + rounding) * norm_of(law.mass);
  return law;
}

// The least epsilon >= 0 whose delta, with all that is neglected, is within the budget.
class LeastEpsilon {
 public:
  LeastEpsilon(const Total& total, const Tilt& tilt, double h, double budget)
      : s_(tilt.s), h_(h), budget_(budget), log_moment_(total.log_moment(tilt.s)) {
    double rounding = 0;  // of a tilted mass, over the rounds
    for (const Group& group : total.groups()) {
      const double most = std::max(std::abs(total.loss(group, 0)),
                                   std::abs(total.loss(group, group.logs.size() - 1)));
      rounding += group.rounds * (s_ * most + std::abs(total.log_moment(group, s_)) + 32);
    }
    factor_ = std::exp(0x1p-51 * rounding);
  }

  // `law` has the places first, first + 1, ..., modulo its length; `outside` is the probability of
  // all others.
  double find(const Law& law, int64_t first, double outside) {
    const auto length = static_cast<int64_t>(law.mass.size());
    const double peak = std::exp(log_peak(s_));
    const double squares = 1 / (2 * s_ * (2 * s_ + 1) * (s_ + 1) * h_) + peak * peak;
    neglected_ = law.error * std::sqrt(squares) + outside * peak;
    for (int64_t k = first + length - 1; k > 0 && k >= first; --k) {
      const double x = h_ * static_cast<double>(k);
      const double mass = std::max(law.mass[to_index(k & (length - 1))], 0.0);
      const double untilted = factor_ * mass * std::exp(log_moment_ - s_ * x);
      above_ += untilted;
      discounted_ += untilted * std::exp(-x);
      if (exceeds(x - h_)) return between(std::max(x - h_, 0.0), x);
    }
    const double end = std::max(h_ * static_cast<double>(first - 1), 0.0);
    return exceeds(0) ? between(0, end) : 0;
  }

 private:
  bool exceeds(double epsilon) const {
    const double delta = std::max(above_ - std::exp(epsilon) * discounted_, 0.0);
    return delta + neglected_ * std::exp(log_moment_ - s_ * epsilon) > budget_;
  }
  // Where the losses above `low` are all known. Infinite: not even `high` is enough.
  double between(double low, double high) const {
    if (exceeds(high)) return kInfinity;
    if (!exceeds(low)) return low;
    for (int i = 0; i < 40; ++i) (exceeds((low + high) / 2) ? low : high) = (low + high) / 2;
    return high;
  }

  double s_, h_, budget_, log_moment_;
  double factor_ = 1, neglected_ = 0;
  double above_ = 0, discounted_ = 0;  // sums of mass and of mass e^-loss
};

// The deviation of a round's loss, about: without the client that of the likelihood ratio.
double rough_deviation(const GaussianRounds& round) {
  const double over = 1 / (round.deviation * round.deviation);
  return std::min(round.rate * std::sqrt(std::expm1(std::min(over, kMostLoss))), std::sqrt(over));
}

double epsilon_one_way(std::span<const GaussianRounds> rounds, double delta, bool is_removal,
                       LossGrids grids, Transform& transform) {
  double least = kInfinity, count = 0;
  for (const GaussianRounds& group : rounds) {
    least = std::min(least, rough_deviation(group));
    count += static_cast<double>(group.rounds);
  }
  const Tilt tilt = tilt_of(Total(rounds, delta, is_removal, {least / 4, 1.0 / 8}), delta);
  if (!(tilt.high < kMostLoss)) return kInfinity;
  const bool is_fine = grids == LossGrids::kFine;
  const double places = is_fine ? std::clamp(4200 * std::sqrt(count), 0x1p13, 0x1p19)
                                : std::clamp(600 * std::sqrt(count), 0x1p11, 0x1p16);
  const int bits = static_cast<int>(std::ceil(std::log2(places)));
  const int64_t length = int64_t{1} << bits;
  const double h = (tilt.high - tilt.low) / static_cast<double>(length - 2);
  const LossGrid grid{h, is_fine ? 1.0 / 512 : 1.0 / 64, length / 4096 + 1, length};
  const Total total(rounds, delta, is_removal, grid);
  const auto first = static_cast<int64_t>(std::floor(tilt.low / h));
  const double log = total.log_moment(tilt.s);
  const double outside =
      total.beyond(tilt.s, log, tilt.down, h * static_cast<double>(first)) +
      total.beyond(tilt.s, log, tilt.up, h * static_cast<double>(first + length - 1));
  LeastEpsilon least_epsilon(total, tilt, h, delta - total.infinite());
  const double epsilon =
      least_epsilon.find(composed(total, tilt.s, bits, transform), first, outside);
  return epsilon + total.slack();
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

double loss_distribution_epsilon(std::span<const GaussianRounds> rounds, double delta,
                                 LossGrids grids) {
  const auto is_certain = [](const GaussianRounds& group) { return group.rate == 1; };
  if (std::ranges::all_of(rounds, is_certain)) {
    double squares = 0;
    for (const GaussianRounds& group : rounds) {
      squares += static_cast<double>(group.rounds) / (group.deviation * group.deviation);
    }
    return gaussian_epsilon(std::sqrt(squares) * (1 + 0x1p-40), delta);
  }
  Transform transform;
  transform.SetFlag(Transform::HalfSpectrum);
  return std::max(epsilon_one_way(rounds, delta, true, grids, transform),
                  epsilon_one_way(rounds, delta, false, grids, transform));
}

}  // namespace hanse
