#include "hanse/rules/privacy/private_rounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "hanse/base/choice.hpp"
#include "hanse/base/error.hpp"
#include "hanse/rules/privacy/correlation.hpp"
#include "hanse/rules/privacy/loss_distribution.hpp"
#include "hanse/rules/privacy/private_sum.hpp"

namespace hanse {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr int kLeastStep = -44;         // of updates, as UpdateSum's units
constexpr double kLeastClip = 0x1p-20;  // of clips that adapt
// The noise is found for a little less than the epsilon to meet: the sum over the rounds, one by
// one, must not exceed it in its last digits.
constexpr double kMargin = 1 - 0x1p-30;

bool has_bands(Correlation correlation) {
  return correlation == Correlation::kToeplitz || correlation == Correlation::kBanded;
}

}  // namespace

PrivateRounds::PrivateRounds(const PrivacyOptions& options, const PrivacyTerms& terms,
                             int64_t rounds)
    : options_(options), terms_(terms), planned_(rounds), clip_(options.clip), accountant_(terms) {
  terms_.mechanism = options.mechanism;
  terms_.adjacency = options.adjacency;
  terms_.check();
  check_correlation();
  accountant_ = PrivacyAccountant(terms_);
  plan();
}

void PrivateRounds::check_correlation() const {
  if (options_.correlation == Correlation::kNone) return;
  const auto refuse = [](const std::string& what, const std::string& key, const std::string& hint) {
    throw InvalidArgument(what + ", when noise is correlated over rounds", key, hint);
  };
  if (options_.is_distributed()) {
    refuse("participants cannot add the noise", "privacy.kind", "central");
  }
  if (options_.clip_kind == ClipKind::kAdaptive) {
    refuse("the clip cannot adapt", "privacy.clip-kind", "fixed");
  }
  if (terms_.is_amplified()) {
    refuse(fmt::format("no guarantee is known for {} draws", name_of(terms_.attendance)),
           "sampler.kind", "cyclic, whose rounds of a client are far apart");
  }
  if (options_.correlation == Correlation::kTree && terms_.attendance != Attendance::kCyclic) {
    refuse("a tree is over rounds in which each client is once", "sampler.kind", "cyclic");
  }
  const int64_t kept = terms_.separation();
  if (options_.separation > planned_) {
    throw InvalidArgument(fmt::format("{} rounds lie between two of a client's, and the run has {}",
                                      options_.separation, planned_),
                          "privacy.separation", "auto");
  }
  if (options_.separation > kept) {
    throw InvalidArgument(
        fmt::format("a client may be in rounds {} apart, not {}", kept, options_.separation),
        "privacy.separation", "auto, or sampler.kind = cyclic with fewer clients a round");
  }
  const int64_t most = terms_.participations(planned_);
  if (options_.participations > 0 && options_.participations < most) {
    throw InvalidArgument(
        fmt::format("a client may be in {} rounds, not {}", most, options_.participations),
        "privacy.participations", "auto, or fewer rounds");
  }
  if (options_.correlation == Correlation::kBanded && options_.bands > separation()) {
    throw InvalidArgument(fmt::format("{} bands reach beyond the {} rounds between two of a "
                                      "client's",
                                      options_.bands, separation()),
                          "privacy.bands", fmt::format("at most {}", separation()));
  }
}

void PrivateRounds::plan() {
  numerators_.clear();
  if (has_bands(options_.correlation)) {
    const bool is_banded = options_.correlation == Correlation::kBanded;
    numerators_ = correlation_numerators(is_banded ? options_.bands : planned_);
  }
  multiplier_ = options_.noise ? *options_.noise : found_multiplier();
  const PrivateRound first = round_at(options_.clip, multiplier_);
  check_range(largest_cohort(terms_), first.lattice,
              (first.share_variance >> (2 * first.fraction_bits)) * shares());
}

double PrivateRounds::found_multiplier() const {
  if (!(options_.epsilon > 0)) {
    throw InvalidArgument("privacy.noise = auto needs an epsilon to meet", "privacy.epsilon",
                          "above 0, such as 8");
  }
  const bool counts = options_.clip_kind == ClipKind::kAdaptive;
  if (counts && epsilon_with(kInfinite) > options_.epsilon) {
    throw InvalidArgument(fmt::format("the noise of {} on the count of clipped clients alone "
                                      "exceeds an epsilon of {}",
                                      adaptive().count_noise, options_.epsilon),
                          "privacy.count-noise", "more, or fewer rounds");
  }
  return least_noise(
      kMargin * options_.epsilon, [this](double z) { return epsilon_with(z); }, most_multiplier());
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

int64_t PrivateRounds::tree_rounds() const {
  return options_.correlation == Correlation::kTree ? terms_.separation() : 0;
}

int64_t PrivateRounds::separation() const {
  return options_.separation > 0 ? options_.separation : terms_.separation();
}

int64_t PrivateRounds::participations(int64_t rounds) const {
  const int64_t drawn = terms_.participations(rounds);
  return std::min(drawn, (rounds - 1) / separation() + 1);
}

double PrivateRounds::sensitivity_squared(int64_t rounds) const {
  if (rounds == 0) return 0;
  const int64_t times = participations(rounds);
  if (has_bands(options_.correlation)) {
    return correlation_sensitivity_squared(numerators_, rounds, separation(), times);
  }
  const int64_t tree = tree_rounds();
  const int64_t nodes = tree > 0 ? tree_sensitivity_squared(std::min(tree, rounds)) : 1;
  return static_cast<double>(times) * static_cast<double>(nodes);
}

// Beyond it the mechanism has no noise of that lattice.
double PrivateRounds::most_multiplier() const {
  if (options_.mechanism != Mechanism::kSkellam || !options_.step.exponent) return kMostMultiplier;
  const int64_t bound = Lattice::of(options_.clip, *options_.step.exponent).bound;
  const double deviation =
      std::sqrt(static_cast<double>(kMostSkellamVariance) * static_cast<double>(honest_shares()));
  return std::min(kMostMultiplier, (deviation - 1) / static_cast<double>(bound));
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
  if (options_.correlation != Correlation::kNone) {
    scale *= std::sqrt(sensitivity_squared(planned_));
  }
  const bool is_fine = !numerators_.empty();
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

bool PrivateRounds::is_over() const {
  return options_.correlation != Correlation::kNone && finished_ >= planned_;
}

PrivateRound PrivateRounds::next() const {
  if (is_over()) {
    throw InvalidArgument(fmt::format("noise correlated over {} rounds ends with them", planned_),
                          "run.rounds", "start a run of more rounds");
  }
  return round_at(clip_, multiplier_);
}

RoundNoise PrivateRounds::noise_of(const PrivateRound& round) const {
  return {.bound = round.lattice.bound,
          .variance = round.variance,
          .shares = honest_shares(),
          .share_variance = round.share_variance,
          .count_variance = round.count_variance};
}

void PrivateRounds::finish_alike(int64_t rounds) {
  const PrivateRound round = next();
  if (options_.correlation == Correlation::kNone) accountant_.spend(noise_of(round), rounds);
  finished_ += rounds;
}

void PrivateRounds::finish(int64_t noised_count) {
  finish_alike(1);
  if (options_.clip_kind == ClipKind::kFixed) return;
  // A clip beyond what the sum holds would end the run.
  const double sum = static_cast<double>(largest_cohort(terms_)) + 40 * update_multiplier();
  clip_ = std::clamp(adaptive().next(clip_, noised_count), kLeastClip, 0x1p17 / sum);
}

// What `rounds` rounds cost together: one release with all that a client moves in them.
PrivacyCost PrivateRounds::correlated_cost(const PrivateRound& round, int64_t rounds,
                                           bool with_pld) const {
  if (rounds == 0) return {.zcdp = 0, .pld = 0};
  const double steps = std::ldexp(static_cast<double>(round.lattice.bound), round.fraction_bits) *
                       static_cast<double>(terms_.reach());
  const double squares = steps * steps * sensitivity_squared(rounds);
  const auto variance = static_cast<double>(round.variance);
  if (variance == 0) return {.rdp = {kInfinite, 0}, .zcdp = kInfinite, .pld = kInfinite};
  PrivacyCost cost;
  const auto at = options_.mechanism == Mechanism::kSkellam
                      ? skellam_renyi(std::sqrt(squares), variance, terms_.n_params)
                      : discrete_gaussian_renyi(std::sqrt(squares), variance);
  cost.rdp = epsilon_of(renyi_curve(at), options_.delta);
  if (options_.mechanism == Mechanism::kSkellam) return cost;
  cost.zcdp = epsilon_of_zcdp(squares / (2 * variance), options_.delta).epsilon;
  const double continuous = variance - (options_.mechanism == Mechanism::kGaussian ? 0 : 16);
  if (with_pld && continuous > 0) {
    const GaussianRounds one{std::sqrt(continuous / squares) * (1 - 0x1p-40), 1, 1};
    cost.pld = loss_distribution_epsilon(std::span(&one, 1), options_.delta);
  }
  return cost;
}

double PrivateRounds::correlated_epsilon(const PrivateRound& round, int64_t rounds) const {
  const AccountantKind kind = options_.accountant;
  const PrivacyCost cost = correlated_cost(round, rounds, kind == AccountantKind::kPld);
  if (kind == AccountantKind::kRdp) return cost.rdp.epsilon;
  return asked_epsilon(kind == AccountantKind::kZcdp ? cost.zcdp : cost.pld, kind);
}

PrivacyCost PrivateRounds::cost() const {
  if (options_.correlation != Correlation::kNone) {
    return correlated_cost(round_at(clip_, multiplier_), finished_, true);
  }
  const double delta = options_.delta;
  return {accountant_.rdp(delta), accountant_.zcdp(delta), accountant_.pld(delta)};
}

double PrivateRounds::epsilon() const {
  if (options_.correlation == Correlation::kNone) {
    return accountant_.epsilon(options_.accountant, options_.delta);
  }
  return correlated_epsilon(round_at(clip_, multiplier_), finished_);
}

double PrivateRounds::epsilon_after(int64_t further) const {
  if (options_.correlation == Correlation::kNone) {
    PrivacyAccountant after = accountant_;
    after.spend(noise_of(next()), further);
    return after.epsilon(options_.accountant, options_.delta);
  }
  return correlated_epsilon(round_at(clip_, multiplier_), finished_ + further);
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

double PrivateRounds::epsilon_with(double multiplier) const {
  PrivacyAccountant accountant(terms_);
  if (options_.clip_kind == ClipKind::kAdaptive && multiplier >= 2 * adaptive().count_noise) {
    // The count alone costs as much as that noise: so do updates without a bound on their noise.
    accountant.spend(
        {.variance = kMostGaussianVariance, .count_variance = adaptive().count_variance()},
        planned_);
    return accountant.epsilon(options_.accountant, options_.delta);
  }
  const PrivateRound round = round_at(options_.clip, multiplier);
  if (options_.correlation != Correlation::kNone) {
    return correlated_epsilon(round, planned_);
  }
  accountant.spend(noise_of(round), planned_);
  return accountant.epsilon(options_.accountant, options_.delta);
}

void PrivateRounds::move_to(const Position& position) {
  if (planned_ != position.planned) {
    planned_ = position.planned;
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
