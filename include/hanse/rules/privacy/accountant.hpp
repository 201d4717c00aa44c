// What the rounds of a run cost in privacy.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "hanse/base/state.hpp"
#include "hanse/rules/privacy/loss_distribution.hpp"
#include "hanse/rules/privacy/noise.hpp"
#include "hanse/rules/privacy/renyi.hpp"

namespace hanse {

// Two runs that must look alike: a client's whole contribution becomes 0, a client is there or is
// not, or a client is another one.
enum class Adjacency { kZeroOut, kAddRemove, kReplace };
constexpr auto choices_of(Adjacency) { return std::array{"zero-out", "add-remove", "replace"}; }

// Who takes part in a round: all; a fixed number, drawn without replacement; a fixed number, in one
// order again and again; each client independently.
enum class Attendance { kFull, kUniform, kCyclic, kPoisson };
constexpr auto choices_of(Attendance) { return std::array{"full", "uniform", "cyclic", "poisson"}; }

// kAuto: the least epsilon of those that apply. Each is a bound for the same rounds, so the least
// is one.
enum class AccountantKind { kAuto, kRdp, kZcdp, kPld };
constexpr auto choices_of(AccountantKind) { return std::array{"auto", "rdp", "zcdp", "pld"}; }

// The integers t of a Poisson draw: a client takes part iff RandomStream::below(2^53) < t, with
// probability t / 2^53, just above per_round / clients.
constexpr int kPoissonBits = 53;
int64_t poisson_threshold(int64_t per_round, int64_t clients);

// The epsilon that was asked for. Throws InvalidArgument where its accountant does not apply.
double asked_epsilon(const std::optional<double>& epsilon, AccountantKind kind);

// The epsilon of the same rounds, by each accountant.
struct PrivacyCost {
  EpsilonBound rdp;
  std::optional<double> zcdp, pld;  // nothing where they do not apply

  // The accountant of the least epsilon, of those that apply.
  AccountantKind best() const;
  // By this one. Throws InvalidArgument where it does not apply.
  double epsilon(AccountantKind kind) const;
};

// The variance of a continuous Gaussian that is no more private than discrete noise of `variance`
// v on each coordinate. It is v - 4: y of N(0, v - 4) is rounded at random, to x with probability
// ~ e^(-(x-y)^2 / 8) over the integers (Peikert 2010, Theorem 3.1). The probabilities' sum over x
// is sqrt(8 pi) (1 + t), |t| <= 2 sum_m e^(-8 pi^2 m^2) < 2^-112, by Poisson's summation formula;
// but for it, x has the law ~ e^(-x^2 / (2 v)), as the two Gaussians' convolution is one. So the
// laws of x and of the discrete Gaussian have a ratio within 1 +- 2^-110, and what is done to an
// output makes no privacy loss larger. Over P coordinates and T rounds the ratio is within 1 +- P T
// 2^-110: for P T < 2^60 epsilon and delta move by less than 2^-49 of themselves, which the
// rounding of loss_distribution_epsilon() covers. kGaussian's is v. At most 0: there is no such
// variance.
double continuous_variance(Mechanism mechanism, int64_t variance);

// What is released, of whom.
struct PrivacyTerms {
  Adjacency adjacency = Adjacency::kZeroOut;
  Attendance attendance = Attendance::kFull;
  int64_t clients = 1;
  int64_t per_round = 1;
  Mechanism mechanism = Mechanism::kDiscreteGaussian;
  int64_t n_params = 1;

  // Throws InvalidArgument where no theorem covers the pair of neighbours and sampler.
  void check() const;
  bool is_amplified() const;  // by who is drawn
  double rate() const;        // the probability that a client is in a round
  // The least rounds from one of a client's to its next.
  int64_t separation() const;
  // The most rounds of `rounds` that one client is in.
  int64_t participations(int64_t rounds) const;
  // How far the sum moves between neighbours, in bounds: 1, or 2 under replace.
  int64_t reach() const { return adjacency == Adjacency::kReplace ? 2 : 1; }
};

// The noise on a round's sum, in steps.
struct RoundNoise {
  int64_t bound = 1;     // S
  int64_t variance = 1;  // at least
  // The noise is the sum of so many draws of share_variance; 1: it is one draw.
  int64_t shares = 1;
  int64_t share_variance = 0;
  // The variance of discrete Gaussian noise on a count beside the sum, which a client moves by 1;
  // 0: there is no count.
  int64_t count_variance = 0;

  bool operator==(const RoundNoise&) const = default;
};

// Adds up rounds. REQUIRES: terms.check() passes.
class PrivacyAccountant final : public Stateful {
 public:
  explicit PrivacyAccountant(const PrivacyTerms& terms) : terms_(terms) {}

  // Rounds with this noise. Noise may change between rounds, by what was released before alone. A
  // round without participants costs the same. Cost: some 0.3 ms for each new noise.
  void spend(const RoundNoise& noise, int64_t rounds = 1);
  int64_t rounds() const { return rounds_; }

  EpsilonBound rdp(double delta) const;
  // Nothing where it does not apply: of Skellam noise, of shares whose sum is not as good as a
  // discrete Gaussian, and of amplified rounds.
  std::optional<double> zcdp(double delta) const;
  // The same, but Poisson's amplification counts. Noise on the sum and on the count is one
  // Gaussian: the squares of what a client moves, in deviations, add up. Cost:
  // loss_distribution_epsilon.
  std::optional<double> pld(double delta, LossGrids grids = LossGrids::kFine) const;
  // Is pld() dear, and not in closed form?
  bool pld_composes() const { return terms_.attendance == Attendance::kPoisson && is_gaussian_; }
  // Throws InvalidArgument where it does not apply.
  double epsilon(AccountantKind kind, double delta) const;

 private:
  // What pld() has found last: rows and limits of a run ask for the same again.
  struct Found {
    std::vector<GaussianRounds> rounds;
    double delta;
    LossGrids grids;
    double epsilon;
  };

  bool sums_to_gaussian(const RoundNoise& noise) const;
  RenyiAt curve_of(const RoundNoise& noise) const;
  const RenyiCurve& known_curve_of(const RoundNoise& noise);
  // Sums over all rounds, or the worst round times a client's most participations.
  double over_rounds(double sum, double worst) const;
  void visit(StateFields& fields) override;

  PrivacyTerms terms_;
  int64_t rounds_ = 0;
  bool is_gaussian_ = true;              // every round's noise
  std::vector<double> sum_, worst_;      // of curves, at renyi_orders()
  double rho_sum_ = 0, rho_worst_ = 0;   // zCDP of a client who takes part
  std::vector<double> deviations_;       // in reaches of the sum, rounded down
  std::vector<int64_t> with_deviation_;  // rounds
  RoundNoise last_noise_;                // of last_curve_, which may be empty
  RenyiCurve last_curve_;
  std::shared_ptr<std::vector<Found>> found_ = std::make_shared<std::vector<Found>>();
};

// The least noise multiplier in [2^-10, most] by which epsilon_of is at most epsilon, to 2^-30 of
// itself, rounded up: it falls as the noise grows. Throws InvalidArgument when there is none.
constexpr double kMostMultiplier = 0x1p10;
double least_noise(double epsilon, const std::function<double(double multiplier)>& epsilon_of,
                   double most = kMostMultiplier);
// The same to 2^-16 of epsilon, by few questions: some ten. REQUIRES: epsilon_of(enough) <=
// epsilon.
double less_noise(double epsilon, const std::function<double(double multiplier)>& epsilon_of,
                  double enough);

}  // namespace hanse
