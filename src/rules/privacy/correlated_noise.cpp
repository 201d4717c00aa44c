#include "hanse/rules/privacy/correlated_noise.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>

#include <fmt/format.h>

#include "hanse/base/choice.hpp"
#include "hanse/base/error.hpp"
#include "hanse/rules/privacy/correlation.hpp"
#include "hanse/rules/privacy/loss_distribution.hpp"

namespace hanse {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

bool has_bands(Correlation correlation) {
  return correlation == Correlation::kToeplitz || correlation == Correlation::kBanded;
}

// Rounds between two of a client's.
int64_t separation_of(const PrivacyOptions& options, const PrivacyTerms& terms) {
  return options.separation > 0 ? options.separation : terms.separation();
}

}  // namespace

void check_correlation(const PrivacyOptions& options, const PrivacyTerms& terms, int64_t rounds) {
  if (options.correlation == Correlation::kNone) return;
  const auto refuse = [](const std::string& what, const std::string& key, const std::string& hint) {
    throw InvalidArgument(what + ", when noise is correlated over rounds", key, hint);
  };
  if (options.is_distributed()) {
    refuse("participants cannot add the noise", "privacy.kind", "central");
  }
  if (options.clip_kind == ClipKind::kAdaptive) {
    refuse("the clip cannot adapt", "privacy.clip-kind", "fixed");
  }
  if (terms.is_amplified()) {
    refuse(fmt::format("no guarantee is known for {} draws", name_of(terms.attendance)),
           "sampler.kind", "cyclic, whose rounds of a client are far apart");
  }
  if (options.correlation == Correlation::kTree && terms.attendance != Attendance::kCyclic) {
    refuse("a tree is over rounds in which each client is once", "sampler.kind", "cyclic");
  }
  const int64_t kept = terms.separation();
  if (options.separation > rounds) {
    throw InvalidArgument(fmt::format("{} rounds lie between two of a client's, and the run has {}",
                                      options.separation, rounds),
                          "privacy.separation", "auto");
  }
  if (options.separation > kept) {
    throw InvalidArgument(
        fmt::format("a client may be in rounds {} apart, not {}", kept, options.separation),
        "privacy.separation", "auto, or sampler.kind = cyclic with fewer clients a round");
  }
  const int64_t most = terms.participations(rounds);
  if (options.participations > 0 && options.participations < most) {
    throw InvalidArgument(
        fmt::format("a client may be in {} rounds, not {}", most, options.participations),
        "privacy.participations", "auto, or fewer rounds");
  }
  const int64_t apart = separation_of(options, terms);
  if (options.correlation == Correlation::kBanded && options.bands > apart) {
    throw InvalidArgument(fmt::format("{} bands reach beyond the {} rounds between two of a "
                                      "client's",
                                      options.bands, apart),
                          "privacy.bands", fmt::format("at most {}", apart));
  }
}

CorrelatedNoise::CorrelatedNoise(const PrivacyOptions& options, const PrivacyTerms& terms,
                                 int64_t rounds)
    : options_(options), terms_(terms) {
  if (!has_bands(options.correlation)) return;
  const bool is_banded = options.correlation == Correlation::kBanded;
  numerators_ = correlation_numerators(is_banded ? options.bands : rounds);
}

int64_t CorrelatedNoise::tree_rounds() const {
  return options_.correlation == Correlation::kTree ? terms_.separation() : 0;
}

double CorrelatedNoise::sensitivity_squared(int64_t rounds) const {
  if (rounds == 0) return 0;
  const int64_t apart = separation_of(options_, terms_);
  const int64_t times = times_in(rounds);
  if (has_bands(options_.correlation)) {
    return correlation_sensitivity_squared(numerators_, rounds, apart, times);
  }
  const int64_t tree = tree_rounds();
  const int64_t nodes = tree > 0 ? tree_sensitivity_squared(std::min(tree, rounds)) : 1;
  return static_cast<double>(times) * static_cast<double>(nodes);
}

int64_t CorrelatedNoise::moved_sums(int64_t rounds) const {
  const int64_t times = times_in(rounds);
  if (!has_bands(options_.correlation)) {
    return static_cast<int64_t>(std::llrint(sensitivity_squared(rounds)));  // 1 a node
  }
  const auto bands = std::ssize(numerators_);
  return times > rounds / bands ? rounds : std::min(rounds, times * bands);
}

int64_t CorrelatedNoise::times_in(int64_t rounds) const {
  const int64_t apart = separation_of(options_, terms_);
  return std::min(terms_.participations(rounds), (rounds - 1) / apart + 1);
}

PrivacyCost CorrelatedNoise::cost(const RoundNoise& noise, int64_t rounds, bool with_pld) const {
  if (rounds == 0) return {.zcdp = 0, .pld = 0};
  const double steps = static_cast<double>(noise.bound) * static_cast<double>(terms_.reach());
  const double squares = steps * steps * sensitivity_squared(rounds);
  const auto variance = static_cast<double>(noise.variance);
  if (variance == 0) return {.rdp = {kInfinite, 0}, .zcdp = kInfinite, .pld = kInfinite};
  PrivacyCost cost;
  const auto at =
      options_.mechanism == Mechanism::kSkellam
          ? skellam_renyi(std::sqrt(squares), variance, terms_.n_params * moved_sums(rounds))
          : discrete_gaussian_renyi(std::sqrt(squares), variance);
  cost.rdp = epsilon_of(renyi_curve(at), options_.delta);
  if (options_.mechanism == Mechanism::kSkellam) return cost;
  cost.zcdp = epsilon_of_zcdp(squares / (2 * variance), options_.delta).epsilon;
  const double continuous = continuous_variance(options_.mechanism, noise.variance);
  if (with_pld && continuous > 0) {
    const GaussianRounds one{std::sqrt(continuous / squares) * (1 - 0x1p-40), 1, 1};
    cost.pld = loss_distribution_epsilon(std::span(&one, 1), options_.delta);
  }
  return cost;
}

double CorrelatedNoise::epsilon(const RoundNoise& noise, int64_t rounds) const {
  const AccountantKind kind = options_.accountant;
  const bool with_pld = kind == AccountantKind::kPld || kind == AccountantKind::kAuto;
  return cost(noise, rounds, with_pld).epsilon(kind);
}

}  // namespace hanse
