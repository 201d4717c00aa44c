#include "hanse/rules/privacy/private_rounds.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "hanse/base/error.hpp"
#include "hanse/rules/privacy/correlation.hpp"
#include "hanse/rules/privacy/private_sum.hpp"

namespace hanse {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kLeastStep = -44;         // of updates, as UpdateSum's units
constexpr double kLeastClip = 0x1p-20;  // of clips that adapt
// The noise is found for a little less than the epsilon to meet: the sum over the rounds, one by
// one, must not exceed it in its last digits. A clip that adapts moves the grid of losses by a
// little, too.
constexpr double kMargin = 1 - 0x1p-30, kMarginOfGrid = 1 - 0x1p-16;

// The terms under these options. Throws InvalidArgument as PrivateRounds.
PrivacyTerms checked(PrivacyTerms terms, const PrivacyOptions& options, int64_t rounds) {
  terms.mechanism = options.mechanism;
  terms.adjacency = options.adjacency;
  terms.check();
  check_correlation(options, terms, rounds);
  return terms;
}

// Throws InvalidArgument where the accountant that was asked for does not apply to this noise.
void require_accountant(const PrivacyOptions& options, const PrivacyTerms& terms,
                        const CorrelatedNoise& correlated, const RoundNoise& noise) {
  if (correlated.is_on()) {
    correlated.epsilon(noise, 1);
  } else {
    PrivacyAccountant one(terms);
    one.spend(noise);
    one.epsilon(options.accountant, options.delta);
  }
}

// Does the accountant that counts compose losses, which takes its time?
bool composes_losses(const PrivacyOptions& options, const PrivacyTerms& terms) {
  const AccountantKind kind = options.accountant;
  return terms.attendance == Attendance::kPoisson && options.mechanism != Mechanism::kSkellam &&
         (kind == AccountantKind::kPld || kind == AccountantKind::kAuto);
}

}  // namespace

PrivateRounds::PrivateRounds(const PrivacyOptions& options, const PrivacyTerms& terms,
                             int64_t rounds)
    : options_(options),
      terms_(checked(terms, options, rounds)),
      planned_(rounds),
      correlated_(options_, terms_, rounds),
      clip_(options.clip),
      accountant_(terms_) {
  plan();
}

void PrivateRounds::plan() {
  multiplier_ = options_.noise ? *options_.noise : found_multiplier();
  const PrivateRound first = round_at(options_.clip, multiplier_);
  check_range(largest_cohort(terms_), first.lattice,
              (first.share_variance >> (2 * first.fraction_bits)) * shares());
  if (first.variance > 0) require_accountant(options_, terms_, correlated_, noise_of(first));
}

double PrivateRounds::found_multiplier() const {
  if (!(options_.epsilon > 0)) {
    throw InvalidArgument("privacy.noise = auto needs an epsilon to meet", "privacy.epsilon",
                          "above 0, such as 8");
  }
  const bool counts = options_.clip_kind == ClipKind::kAdaptive;
  if (counts && epsilon_with(kNever, options_.accountant) > options_.epsilon) {
    throw InvalidArgument(fmt::format("the noise of {} on the count of clipped clients alone "
                                      "exceeds an epsilon of {}",
                                      adaptive().count_noise, options_.epsilon),
                          "privacy.count-noise", "more, or fewer rounds");
  }
  const auto least = [&](double epsilon, AccountantKind kind) {
    return least_noise(
        epsilon, [&](double z) { return epsilon_with(z, kind); }, most_multiplier());
  };
  if (!composes_losses(options_, terms_))
    return least(kMargin * options_.epsilon, options_.accountant);
  const double epsilon = kMarginOfGrid * options_.epsilon;
  const auto by_losses = [this](double z) { return epsilon_with(z, options_.accountant); };
  if (epsilon_with(most_multiplier(), AccountantKind::kRdp) <= epsilon) {
    const double enough = least(epsilon, AccountantKind::kRdp);
    if (by_losses(enough) <= epsilon) return less_noise(epsilon, by_losses, enough);
  }
  return least(epsilon, options_.accountant);
}

int64_t PrivateRounds::expected() const {
  if (terms_.attendance == Attendance::kFull) return terms_.clients;
  return std::min(terms_.per_round, terms_.clients);
}

int64_t PrivateRounds::shares() const { return options_.is_distributed() ? expected() : 1; }

int64_t PrivateRounds::honest_shares() const {
  const double honest = std::floor(options_.honest * static_cast<double>(shares()));
  return std::max<int64_t>(1, static_cast<int64_t>(honest));
}

AdaptiveClip PrivateRounds::adaptive() const {
  const auto n = static_cast<double>(expected());
  const double noise = options_.count_noise > 0 ? options_.count_noise : n / 20;
  return {options_.quantile, options_.clip_rate, noise, n};
}

double PrivateRounds::update_multiplier() const {
  if (options_.clip_kind == ClipKind::kFixed || multiplier_ == 0) return multiplier_;
  return adaptive().update_multiplier(multiplier_);
}

// Beyond it the mechanism has no noise of that lattice.
double PrivateRounds::most_multiplier() const {
  if (!options_.step.exponent) return kMostMultiplier;
  Lattice lattice = Lattice::of(options_.clip, *options_.step.exponent);
  double most = 0;
  if (options_.mechanism == Mechanism::kSkellam) {
    const double deviation =
        std::sqrt(static_cast<double>(kMostSkellamVariance) * static_cast<double>(honest_shares()));
    most = (deviation - 1) / static_cast<double>(lattice.bound);
  } else {
    if (!correlated_.numerators().empty()) lattice.bound <<= kCorrelationBits;
    most = lattice.most_multiplier();
    if (correlated_.is_on()) most /= std::sqrt(correlated_.sensitivity_squared(planned_));
  }
  return std::min(kMostMultiplier, most);
}

// z is the noise as if the whole run were one release (C19): correlated noise grows with what a
// client moves in all rounds.
PrivateRound PrivateRounds::round_at(double clip, double multiplier) const {
  PrivateRound round{.clip = clip};
  double scale = multiplier;
  if (options_.clip_kind == ClipKind::kAdaptive && multiplier > 0) {
    scale = adaptive().update_multiplier(multiplier);
    round.count_variance = adaptive().count_variance();
  }
  if (correlated_.is_on()) scale *= std::sqrt(correlated_.sensitivity_squared(planned_));
  const bool is_fine = !correlated_.numerators().empty();
  round.fraction_bits = is_fine ? kCorrelationBits : 0;
  const int least = kLeastStep + round.fraction_bits;
  int exponent = least;
  if (options_.step.exponent) {
    exponent = *options_.step.exponent;
    if (exponent < least) {
      throw InvalidArgument(fmt::format("a step of 2^{} is below 2^{}", exponent, least),
                            "privacy.step", "auto");
    }
  } else if (scale > 0) {
    exponent = step_exponent(scale * clip, is_fine ? 16 : 20, least);
  }
  round.lattice = Lattice::of(clip, exponent);
  const Lattice fine{exponent - round.fraction_bits, round.lattice.bound << round.fraction_bits};
  round.variance = fine.noise_variance(scale);
  if (round.variance > 0) {
    round.share_variance = Noise::share(options_.mechanism, round.variance, honest_shares());
  }
  const double all = static_cast<double>(round.share_variance) * static_cast<double>(shares());
  round.deviation = std::sqrt(all) * fine.step();
  Noise(options_.mechanism, round.share_variance);  // throws where the mechanism cannot have it
  return round;
}

bool PrivateRounds::is_over() const { return correlated_.is_on() && finished_ >= planned_; }

PrivateRound PrivateRounds::next() const {
  if (is_over()) {
    throw InvalidArgument(fmt::format("noise correlated over {} rounds ends with them", planned_),
                          "run.rounds", "start a run of more rounds");
  }
  return round_at(clip_, multiplier_);
}

RoundNoise PrivateRounds::noise_of(const PrivateRound& round) const {
  return {.bound = round.lattice.bound << round.fraction_bits,
          .variance = round.variance,
          .shares = honest_shares(),
          .share_variance = round.share_variance,
          .count_variance = round.count_variance};
}

void PrivateRounds::finish_alike(int64_t rounds) {
  const PrivateRound round = next();
  if (!correlated_.is_on()) accountant_.spend(noise_of(round), rounds);
  finished_ += rounds;
}

void PrivateRounds::finish(int64_t noised_count) {
  finish_alike(1);
  if (options_.clip_kind == ClipKind::kFixed) return;
  // A clip beyond what the sum holds would end the run.
  const double sum = static_cast<double>(largest_cohort(terms_)) + 40 * update_multiplier();
  clip_ = std::clamp(adaptive().next(clip_, noised_count), kLeastClip, 0x1p17 / sum);
}

PrivacyCost PrivateRounds::cost() const {
  if (correlated_.is_on()) {
    return correlated_.cost(noise_of(round_at(clip_, multiplier_)), finished_);
  }
  const double delta = options_.delta;
  return {accountant_.rdp(delta), accountant_.zcdp(delta), accountant_.pld(delta)};
}

double PrivateRounds::epsilon() const {
  if (!correlated_.is_on()) return accountant_.epsilon(options_.accountant, options_.delta);
  return correlated_.epsilon(noise_of(round_at(clip_, multiplier_)), finished_);
}

double PrivateRounds::epsilon_after(int64_t further) const {
  if (!correlated_.is_on()) {
    PrivacyAccountant after = accountant_;
    after.spend(noise_of(next()), further);
    return after.epsilon(options_.accountant, options_.delta);
  }
  return correlated_.epsilon(noise_of(round_at(clip_, multiplier_)), finished_ + further);
}

double PrivateRounds::epsilon_at_most(int64_t further) const {
  if (!composes_losses(options_, terms_)) return epsilon_after(further);
  const int64_t rounds = finished_ + further;
  const auto with = [&](int64_t more, LossGrids grids) {
    PrivacyAccountant after = accountant_;
    after.spend(noise_of(next()), more);
    const double by_losses = after.pld(options_.delta, grids).value_or(kNever);
    return options_.accountant == AccountantKind::kAuto
               ? std::min(by_losses, after.rdp(options_.delta).epsilon)
               : by_losses;
  };
  // Not every number of rounds has an epsilon of its own: the next multiple of a thirty-second.
  const auto part = static_cast<int64_t>(
      std::max<uint64_t>(std::bit_floor(static_cast<uint64_t>(rounds) / 32), 1));
  int64_t more = (rounds + part - 1) / part * part - finished_;
  const bool ends = !options_.noise && rounds <= planned_;
  if (ends) more = std::min(more, planned_ - finished_);
  const double most = limit();
  double epsilon = with(more, LossGrids::kRough);
  if (options_.accountant == AccountantKind::kAuto) {
    PrivacyAccountant after = accountant_;
    after.spend(noise_of(next()), further);
    epsilon = std::min(epsilon, after.rdp(options_.delta).epsilon);
  }
  if (most == 0 || epsilon <= most) return epsilon;
  if (ends) epsilon = std::min(epsilon, with(planned_ - finished_, LossGrids::kFine));
  return epsilon <= most ? epsilon : epsilon_after(further);
}

double PrivateRounds::limit() const {
  if (options_.max_epsilon > 0) return options_.max_epsilon;
  return options_.noise ? 0 : options_.epsilon;
}

double PrivateRounds::epsilon_of_server(int64_t rounds) const {
  PrivacyTerms drawn = terms_;
  drawn.attendance = Attendance::kFull;
  if (drawn.adjacency == Adjacency::kAddRemove) drawn.adjacency = Adjacency::kZeroOut;
  PrivacyAccountant accountant(drawn);
  accountant.spend(noise_of(next()), rounds);
  return accountant.epsilon(options_.accountant, options_.delta);
}

double PrivateRounds::epsilon_with(double multiplier, AccountantKind kind) const {
  PrivacyAccountant accountant(terms_);
  if (options_.clip_kind == ClipKind::kAdaptive && multiplier >= 2 * adaptive().count_noise) {
    // The count alone costs as much as that noise: so do updates without a bound on their noise.
    accountant.spend(
        {.variance = kMostGaussianVariance, .count_variance = adaptive().count_variance()},
        planned_);
    return accountant.epsilon(kind, options_.delta);
  }
  const RoundNoise noise = noise_of(round_at(options_.clip, multiplier));
  if (correlated_.is_on()) return correlated_.epsilon(noise, planned_);
  accountant.spend(noise, planned_);
  return accountant.epsilon(kind, options_.delta);
}

void PrivateRounds::move_to(const Position& position) {
  if (planned_ != position.planned) {
    planned_ = position.planned;
    correlated_ = CorrelatedNoise(options_, terms_, planned_);
    plan();
  }
  finished_ = position.finished;
  clip_ = position.clip;
}

void PrivateRounds::visit(StateFields& fields) {
  Position kept = position();
  fields.one("planned", kept.planned);
  fields.one("finished", kept.finished);
  fields.one("clip", kept.clip);
  fields.part("accountant", accountant_);
  if (fields.loads()) move_to(kept);
}

}  // namespace hanse
