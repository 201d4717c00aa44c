#include "hanse/rules/privacy/accountant.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "hanse/base/choice.hpp"
#include "hanse/base/error.hpp"
#include "hanse/base/index.hpp"
#include "hanse/rules/privacy/loss_distribution.hpp"

namespace hanse {

namespace {

constexpr double kNoBound = std::numeric_limits<double>::infinity();

// The deviation of a continuous Gaussian that is no more private, in units of `reach`, rounded down
// so that rounds with nearly the same noise are one group. `reach` and that of the count are how
// far neighbours move the sum and the count.
double continuous_deviation(const RoundNoise& noise, Mechanism mechanism, double reach,
                            double count_reach) {
  const double variance = continuous_variance(mechanism, noise.variance);
  double squares = reach * reach / variance;  // of the move in deviations
  bool is_known = variance > 0;
  if (noise.count_variance > 0) {
    const double of_count = continuous_variance(Mechanism::kDiscreteGaussian, noise.count_variance);
    is_known = is_known && of_count > 0;
    squares += count_reach * count_reach / of_count;
  }
  if (!is_known) return 0;
  int exponent = 0;
  const double digits = std::frexp(1 / std::sqrt(squares), &exponent);
  return std::ldexp(std::floor(std::ldexp(digits, 24)), exponent - 24);
}

// zCDP of the noise on the count.
double count_rho(const RoundNoise& noise, double count_reach) {
  if (noise.count_variance == 0) return 0;
  return count_reach * count_reach / (2 * static_cast<double>(noise.count_variance));
}

}  // namespace

double continuous_variance(Mechanism mechanism, int64_t variance) {
  constexpr double kLost = 4;
  return static_cast<double>(variance) - (mechanism == Mechanism::kGaussian ? 0 : kLost);
}

AccountantKind PrivacyCost::best() const {
  const double by_zcdp = zcdp.value_or(kNoBound), by_pld = pld.value_or(kNoBound);
  if (rdp.epsilon <= std::min(by_zcdp, by_pld)) return AccountantKind::kRdp;
  return by_zcdp <= by_pld ? AccountantKind::kZcdp : AccountantKind::kPld;
}

double PrivacyCost::epsilon(AccountantKind kind) const {
  if (kind == AccountantKind::kAuto) kind = best();
  if (kind == AccountantKind::kRdp) return rdp.epsilon;
  return asked_epsilon(kind == AccountantKind::kZcdp ? zcdp : pld, kind);
}

int64_t poisson_threshold(int64_t per_round, int64_t clients) {
  const auto product = static_cast<Uint128>(per_round) << kPoissonBits;
  const auto m = static_cast<Uint128>(clients);
  return static_cast<int64_t>(product / m + (product % m != 0 ? 1 : 0));
}

double asked_epsilon(const std::optional<double>& epsilon, AccountantKind kind) {
  if (epsilon) return *epsilon;
  throw InvalidArgument(fmt::format("{} does not apply to this noise and sampler", name_of(kind)),
                        "privacy.accountant", "rdp always does, and auto takes the least");
}

void PrivacyTerms::check() const {
  if (adjacency == Adjacency::kReplace) {
    if (attendance == Attendance::kUniform || attendance == Attendance::kFull) return;
  } else {
    if (attendance == Attendance::kPoisson || adjacency == Adjacency::kZeroOut) return;
  }
  const char* allowed = adjacency == Adjacency::kReplace ? "uniform and full" : "poisson";
  throw InvalidArgument(
      fmt::format("no guarantee is known for sampler.kind = {} when neighbours are {}",
                  name_of(attendance), name_of(adjacency)),
      "privacy.adjacency",
      fmt::format("{} has one for {}; zero-out has one for every sampler", name_of(adjacency),
                  allowed));
}

bool PrivacyTerms::is_amplified() const {
  return attendance == Attendance::kPoisson ||
         (adjacency == Adjacency::kReplace && attendance == Attendance::kUniform);
}

double PrivacyTerms::rate() const {
  if (attendance == Attendance::kPoisson) {
    return std::ldexp(static_cast<double>(poisson_threshold(per_round, clients)), -kPoissonBits);
  }
  if (attendance == Attendance::kFull) return 1;
  return static_cast<double>(per_round) / static_cast<double>(clients);
}

int64_t PrivacyTerms::separation() const {
  if (attendance != Attendance::kCyclic) return 1;
  return std::max<int64_t>(1, clients / per_round);
}

int64_t PrivacyTerms::participations(int64_t rounds) const {
  if (attendance != Attendance::kCyclic) return rounds;
  const auto drawn = static_cast<Uint128>(rounds) * static_cast<Uint128>(per_round);
  return static_cast<int64_t>((drawn + static_cast<Uint128>(clients) - 1) /
                              static_cast<Uint128>(clients));
}

// Draws of discrete Gaussians whose sum is nearer to one discrete Gaussian than 2^-100 count as
// one: the logarithm of the ratio of their laws is at most that everywhere, so that a round's curve
// moves by less than 2^-98, which is nothing beside its own rounding.
bool PrivacyAccountant::sums_to_gaussian(const RoundNoise& noise) const {
  if (noise.shares == 1) return true;
  return summed_gaussians_gap(static_cast<double>(noise.share_variance), noise.shares) *
             static_cast<double>(terms_.n_params) <
         0x1p-100;
}

RenyiAt PrivacyAccountant::curve_of(const RoundNoise& noise) const {
  const double reach = static_cast<double>(terms_.reach()) * static_cast<double>(noise.bound);
  const auto share = static_cast<double>(noise.share_variance);
  const auto variance = static_cast<double>(noise.variance);
  const double rho_of_count = count_rho(noise, static_cast<double>(terms_.reach()));
  const bool is_skellam = terms_.mechanism == Mechanism::kSkellam;
  const bool is_sum = terms_.mechanism == Mechanism::kDiscreteGaussian && !sums_to_gaussian(noise);
  RenyiAt curve = discrete_gaussian_renyi(reach, variance);
  if (is_skellam) curve = skellam_renyi(reach, variance, terms_.n_params);
  if (is_sum) curve = summed_gaussians_renyi(reach, share, noise.shares, terms_.n_params);
  if (rho_of_count > 0) {
    curve = [of_sum = curve, rho_of_count](double order) {
      return of_sum(order) + order * rho_of_count;
    };
  }
  if (!terms_.is_amplified()) return curve;
  if (terms_.attendance == Attendance::kUniform) {
    return uniformly_sampled_renyi(terms_.rate(), curve);
  }
  if (is_skellam || is_sum) return poisson_sampled_renyi(terms_.rate(), curve);
  return poisson_sampled_gaussian_renyi(terms_.rate(),
                                        reach * reach / (2 * variance) + rho_of_count);
}

const RenyiCurve& PrivacyAccountant::known_curve_of(const RoundNoise& noise) {
  if (last_curve_.empty() || !(noise == last_noise_)) {
    last_curve_ =
        renyi_curve(noise.variance > 0 ? curve_of(noise) : [](double) { return kNoBound; });
    last_noise_ = noise;
  }
  return last_curve_;
}

void PrivacyAccountant::spend(const RoundNoise& noise, int64_t rounds) {
  if (rounds == 0) return;
  rounds_ += rounds;
  const auto count = static_cast<double>(rounds);
  const double reach = static_cast<double>(terms_.reach()) * static_cast<double>(noise.bound);
  const RenyiCurve& curve = known_curve_of(noise);
  sum_.resize(curve.size());
  worst_.resize(curve.size());
  for (std::size_t i = 0; i < curve.size(); ++i) {
    sum_[i] += count * curve[i];
    worst_[i] = std::max(worst_[i], curve[i]);
  }
  const auto count_reach = static_cast<double>(terms_.reach());
  const double deviation = continuous_deviation(noise, terms_.mechanism, reach, count_reach);
  is_gaussian_ = is_gaussian_ && deviation > 0 && terms_.mechanism != Mechanism::kSkellam &&
                 (terms_.mechanism == Mechanism::kGaussian || sums_to_gaussian(noise));
  if (!is_gaussian_) return;
  const double rho =
      reach * reach / (2 * static_cast<double>(noise.variance)) + count_rho(noise, count_reach);
  rho_sum_ += count * rho;
  rho_worst_ = std::max(rho_worst_, rho);
  const auto found = std::find(deviations_.begin(), deviations_.end(), deviation);
  if (found == deviations_.end()) {
    deviations_.push_back(deviation);
    with_deviation_.push_back(rounds);
  } else {
    with_deviation_[to_index(found - deviations_.begin())] += rounds;
  }
}

double PrivacyAccountant::over_rounds(double sum, double worst) const {
  if (terms_.attendance != Attendance::kCyclic) return sum;
  return static_cast<double>(terms_.participations(rounds_)) * worst;
}

EpsilonBound PrivacyAccountant::rdp(double delta) const {
  if (rounds_ == 0) return {};
  RenyiCurve curve(sum_.size());
  for (std::size_t i = 0; i < curve.size(); ++i) curve[i] = over_rounds(sum_[i], worst_[i]);
  return epsilon_of(curve, delta);
}

std::optional<double> PrivacyAccountant::zcdp(double delta) const {
  if (!is_gaussian_ || terms_.is_amplified()) return {};
  if (rounds_ == 0) return 0;
  return epsilon_of_zcdp(over_rounds(rho_sum_, rho_worst_), delta).epsilon;
}

std::optional<double> PrivacyAccountant::pld(double delta, LossGrids grids) const {
  const bool is_poisson = terms_.attendance == Attendance::kPoisson;
  if (!is_gaussian_ || (terms_.is_amplified() && !is_poisson)) return {};
  if (rounds_ == 0) return 0;
  const double rate = is_poisson ? terms_.rate() : 1;
  std::vector<GaussianRounds> groups;
  if (terms_.attendance == Attendance::kCyclic) {
    const double worst = *std::min_element(deviations_.begin(), deviations_.end());
    groups.push_back({worst, rate, terms_.participations(rounds_)});
  } else {
    for (std::size_t i = 0; i < deviations_.size(); ++i) {
      groups.push_back({deviations_[i], rate, with_deviation_[i]});
    }
  }
  for (const Found& known : *found_) {
    if (known.delta == delta && known.grids == grids && known.rounds == groups) {
      return known.epsilon;
    }
  }
  constexpr std::size_t kKept = 4;
  if (found_->size() == kKept) found_->erase(found_->begin());
  found_->push_back({groups, delta, grids, loss_distribution_epsilon(groups, delta, grids)});
  return found_->back().epsilon;
}

double PrivacyAccountant::epsilon(AccountantKind kind, double delta) const {
  if (kind == AccountantKind::kRdp) return rdp(delta).epsilon;
  if (kind == AccountantKind::kZcdp) return asked_epsilon(zcdp(delta), kind);
  if (kind == AccountantKind::kPld) return asked_epsilon(pld(delta), kind);
  return PrivacyCost{rdp(delta), zcdp(delta), pld(delta)}.epsilon(kind);
}

void PrivacyAccountant::visit(StateFields& fields) {
  fields.one("rounds", rounds_);
  fields.one("is_gaussian", is_gaussian_);
  fields.all("sum", sum_);
  fields.all("worst", worst_);
  fields.numbers("rho", {&rho_sum_, &rho_worst_});
  fields.all("deviations", deviations_);
  fields.all("with_deviation", with_deviation_);
  if (!sum_.empty() && sum_.size() != renyi_orders().size()) {
    throw InvalidArgument("the checkpoint's Renyi orders are those of another version of Hanse",
                          "privacy", "the version that wrote it");
  }
}

double least_noise(double epsilon, const std::function<double(double multiplier)>& epsilon_of,
                   double most) {
  double low = 0x1p-10, high = most;
  if (!(epsilon_of(high) <= epsilon)) {
    throw InvalidArgument(fmt::format("no noise up to {} meets an epsilon of {}", high, epsilon),
                          "privacy.epsilon", "a larger one, or fewer rounds");
  }
  if (epsilon_of(low) <= epsilon) return low;
  while (high - low > 0x1p-30 * high) {
    const double middle = low + (high - low) / 2;
    (epsilon_of(middle) <= epsilon ? high : low) = middle;
  }
  return high;
}

double less_noise(double epsilon, const std::function<double(double multiplier)>& epsilon_of,
                  double enough) {
  // The logarithm of epsilon over that of the noise is nearly a line: false position, where an end
  // that stays twice counts half (Illinois). It looks for what is 2^-17 below epsilon, so that what
  // is as near to that is enough, from either side.
  constexpr double kNear = 0x1p-17;
  const auto excess = [&](double z) { return std::log(epsilon_of(z) / epsilon) + kNear; };
  double high = enough, at_high = excess(high);
  if (at_high >= -kNear) return high;
  double low = 0.9 * high, at_low = excess(low);
  while (at_low <= kNear) {
    if (low < 0x1p-10 || at_low >= -kNear) return low;
    high = std::exchange(low, 0.8 * low);
    at_high = std::exchange(at_low, excess(low));
  }
  bool low_stayed = false, high_stayed = false;  // at the last question
  while (high - low > 0x1p-30 * high) {
    double part = at_low / (at_low - at_high);
    if (!(0.01 < part && part < 0.99)) part = 0.5;  // also for infinite ends
    const double middle = low * std::pow(high / low, part), at_middle = excess(middle);
    if (std::abs(at_middle) <= kNear) return middle;
    const bool is_low = at_middle > 0;
    if (is_low && high_stayed) at_high /= 2;
    if (!is_low && low_stayed) at_low /= 2;
    high_stayed = is_low;
    low_stayed = !is_low;
    (is_low ? low : high) = middle;
    (is_low ? at_low : at_high) = at_middle;
  }
  return high;
}

}  // namespace hanse
