#include "round_losses.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "hanse/base/index.hpp"

namespace hanse {

namespace {

constexpr double kEndless = std::numeric_limits<double>::infinity();
constexpr double kMostExponent = 600;
constexpr double kTailRounding = 0x1p-50;  // of erfc, and of a few operations beside it

// A probability, and by how much it may be wrong.
struct Mass {
  double value = 0;
  double error = 0;
};

// x of a standard normal, with P(N > |x|).
struct Place {
  explicit Place(double at) : x(at), tail(0.5 * std::erfc(std::abs(at) / std::numbers::sqrt2)) {}
  double x;
  double tail;
};

// A rounding of x moves its tail by x^2 as much.
double error_of(const Place& place) {
  return place.tail == 0 ? 0 : kTailRounding * (1 + place.x * place.x) * place.tail;
}

// P(a < N < b).
Mass between(const Place& a, const Place& b) {
  if (a.x >= 0) return {a.tail - b.tail, error_of(a)};
  if (b.x <= 0) return {b.tail - a.tail, error_of(b)};
  return {1 - a.tail - b.tail, kTailRounding};
}

// With y the noise or 1 more, in deviations s: the law with the client, (1-q) N(0, s) + q N(1, s),
// the one without, N(0, s), and where ln of their ratio takes a value.
class OneRound {
 public:
  OneRound(double deviation, double rate) : deviation_(deviation), rate_(rate) {}

  struct End {
    double y;
    Place without, moved;
  };
  End end(double y) const { return {y, Place(y / deviation_), Place((y - 1) / deviation_)}; }
  Mass without(const End& a, const End& b) const { return between(a.without, b.without); }
  Mass with(const End& a, const End& b) const {
    const Mass still = without(a, b), moved = between(a.moved, b.moved);
    return {(1 - rate_) * still.value + rate_ * moved.value,
            (1 - rate_) * still.error + rate_ * moved.error};
  }
  // The y at which ln(with / without) is `ratio`; -infinity below all of them.
  double at(double ratio) const {
    double exponent = ratio - std::log(rate_);
    if (rate_ < 1 && ratio < kMostExponent) {
      const double over = std::expm1(ratio) + rate_;
      exponent = over > 0 ? std::log(over / rate_) : -kEndless;
    }
    return deviation_ * deviation_ * exponent + 0.5;
  }
  double ratio(double y) const {
    const double exponent = (2 * y - 1) / (2 * deviation_ * deviation_);
    if (rate_ == 1 || exponent > kMostExponent) return exponent + std::log(rate_);
    return std::log1p(rate_ * std::expm1(exponent));
  }

 private:
  double deviation_;
  double rate_;
};

// The multiples of the grid that hold losses, with one at or below `lowest` and one at or above
// `highest`.
std::vector<int64_t> places(int64_t lowest, int64_t highest, const LossGrid& grid) {
  const int64_t end = std::max(std::abs(lowest), std::abs(highest));
  std::vector<int64_t> out{0};
  while (out.back() < end) {
    const auto step = static_cast<int64_t>(grid.growth * static_cast<double>(out.back()));
    const int64_t most = out.back() < grid.far ? grid.widest : step;
    out.push_back(out.back() + std::max<int64_t>(std::min(step, most), 1));
  }
  std::vector<int64_t> all;
  const auto is_between = [&](int64_t lower, int64_t upper) {
    return upper >= lowest && lower <= highest;
  };
  for (std::size_t i = out.size() - 1; i > 0; --i) {
    if (is_between(-out[i], -out[i - 1])) all.push_back(-out[i]);
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (i == 0 || is_between(out[i - 1], out[i])) all.push_back(out[i]);
  }
  return all;
}

// The part of a mass p between two losses that the upper one takes, so that the other law keeps its
// mass q = lower e^(-lower_loss) + upper e^(-lower_loss - width), too; rounded up.
double upper_part(const Mass& p, const Mass& q, double lower_loss, double width) {
  const double factor = std::exp(std::min(lower_loss, kMostExponent));
  const double part = (p.value - q.value * factor) / -std::expm1(-width);
  return std::clamp(part + (p.error + factor * q.error) / width, 0.0, p.value + p.error);
}

}  // namespace

RoundLosses losses_of(double deviation, double rate, bool is_removal, double tail,
                      const LossGrid& grid) {
  const OneRound law(deviation, rate);
  const double reach = std::sqrt(-2 * std::log(tail)) * deviation, h = grid.grid;
  RoundLosses losses;
  losses.at = places(static_cast<int64_t>(std::floor(law.ratio(-reach) / h)),
                     static_cast<int64_t>(std::ceil(law.ratio(1 + reach) / h)), grid);
  const std::size_t n = losses.at.size();
  losses.mass.assign(n, 0.0);
  losses.slack = kTailRounding * (4 + (1 + reach) / (deviation * deviation));
  const auto loss = [&](std::size_t i) { return h * static_cast<double>(losses.at[i]); };
  const auto rounded_up = [](const Mass& mass) { return std::max(mass.value, 0.0) + mass.error; };
  OneRound::End lower = law.end(law.at(loss(0)));
  const OneRound::End bottom = law.end(-kEndless), top = law.end(kEndless);
  if (is_removal) {
    losses.mass[0] = rounded_up(law.with(bottom, lower));
  } else {
    losses.infinite = rounded_up(law.without(bottom, lower));
  }
  for (std::size_t i = 0; i + 1 < n; ++i) {
    const OneRound::End upper = law.end(law.at(loss(i + 1)));
    Mass with = law.with(lower, upper), without = law.without(lower, upper);
    with.error += 2 * losses.slack * with.value;
    without.error += 2 * losses.slack * without.value;
    const Mass& p = is_removal ? with : without;
    const double up = upper_part(p, is_removal ? without : with,
                                 is_removal ? loss(i) : -loss(i + 1), loss(i + 1) - loss(i));
    losses.mass[is_removal ? i + 1 : i] += up;
    losses.mass[is_removal ? i : i + 1] += std::max(rounded_up(p) - up, 0.0);
    lower = upper;
  }
  if (is_removal) {
    losses.infinite = rounded_up(law.with(lower, top));
    return losses;
  }
  losses.mass[n - 1] += rounded_up(law.without(lower, top));
  std::ranges::reverse(losses.at);
  std::ranges::reverse(losses.mass);
  for (int64_t& place : losses.at) place = -place;
  return losses;
}

}  // namespace hanse
