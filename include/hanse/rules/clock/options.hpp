// Options of the virtual clock and of asynchronous rounds, and the texts by which a job gives some
// of them: a word, a number, or a word with numbers in parentheses, as lognormal(1, 0.6).
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace hanse {

enum class DistributionKind { kConstant, kUniform, kLognormal, kHalfnormal, kExponential, kPareto };
constexpr auto choices_of(DistributionKind) {
  return std::array{"constant", "uniform", "lognormal", "halfnormal", "exponential", "pareto"};
}

// A law of positive numbers: constant(a), uniform(a, b), lognormal(mu, sigma) = exp(mu + sigma N),
// halfnormal(min, sd) = min + sd |N|, exponential(mean), pareto(alpha, min).
struct Distribution {
  DistributionKind kind = DistributionKind::kConstant;
  double a = 1;
  double b = 0;  // of distributions with two numbers

  // Throws InvalidArgument: no distribution, or numbers by which a value may not be positive.
  static Distribution parse(std::string_view text);
  std::string text() const;  // parse(text()) is *this
  bool is_constant() const { return kind == DistributionKind::kConstant; }
  bool operator==(const Distribution&) const = default;
};

// Mbit/s: a distribution, or "inf".
struct LinkRate {
  Distribution mbit = {.a = std::numeric_limits<double>::infinity()};

  static LinkRate parse(std::string_view text);
  std::string text() const;
  bool operator==(const LinkRate&) const = default;
};

enum class OnLineKind { kAlways, kMarkov, kDiurnal, kFile };

// When clients are on line: always; markov(on, off), mean seconds; diurnal(period, share), seconds
// and a share in (0, 1]; file.
struct OnLineOptions {
  OnLineKind kind = OnLineKind::kAlways;
  double a = 0;
  double b = 0;

  static OnLineOptions parse(std::string_view text);
  std::string text() const;
};

// Probability that a task never comes back, in [0, 1), or of each client by a file.
struct LostOptions {
  double probability = 0;
  bool by_file = false;

  static LostOptions parse(std::string_view text);
  std::string text() const;
  bool never() const { return !by_file && probability == 0; }
};

// Seconds, or quantile(p): the time in which the fastest share p of all clients is done.
struct DeadlineOptions {
  double seconds = 60;
  double quantile = 0;  // in (0, 1]; 0: `seconds`

  static DeadlineOptions parse(std::string_view text);
  std::string text() const;
};

// What happens to work whose client goes off line before it arrives.
enum class LeaveRule { kLose, kPause, kFinish };
constexpr auto choices_of(LeaveRule) { return std::array{"lose", "pause", "finish"}; }

// When a synchronous round ends.
enum class RoundEnd { kAll, kFirst, kDeadline };
constexpr auto choices_of(RoundEnd) { return std::array{"all", "first", "deadline"}; }

// What becomes of work that would arrive after the deadline.
enum class LateRule { kDrop, kPartial, kCarry };
constexpr auto choices_of(LateRule) { return std::array{"drop", "partial", "carry"}; }

struct ClockOptions {
  std::string kind = "none";  // none | virtual
  int64_t seed = 0;           // 0: run.seed
  double sample_seconds = 0.005;
  Distribution speed;  // factor on sample_seconds
  double size_correlation = 0;
  double backward_factor = 1;
  LinkRate down;
  LinkRate up;
  double latency_ms = 0;  // each way
  double jitter = 0;      // sigma_j
  std::string path;       // profiles; empty: by the keys above
  OnLineOptions availability;
  std::string availability_path;
  LeaveRule leave = LeaveRule::kLose;
  LostOptions lost;
  std::string lost_path;
  RoundEnd round = RoundEnd::kAll;
  double over_select = 1;  // sampler.over-select
  DeadlineOptions deadline;
  LateRule late = LateRule::kDrop;
  double empty_seconds = 10;
  double server_seconds = 0;
  double virtual_seconds = 0;   // run.virtual-seconds; 0: no limit
  double evaluate_seconds = 0;  // evaluate.every-seconds; 0: by rounds

  bool is_on() const { return kind == "virtual"; }
  bool has_deadline() const { return round == RoundEnd::kDeadline; }
  bool makes_partial() const { return has_deadline() && late == LateRule::kPartial; }
  bool carries() const { return has_deadline() && late == LateRule::kCarry; }
  // How many are drawn, if so many are there, for a round of K: ceil(over_select K).
  int64_t draws(int64_t per_round) const;
};

enum class StalenessKind { kConstant, kPoly, kHinge, kThreshold };
constexpr auto choices_of(StalenessKind) {
  return std::array{"constant", "poly", "hinge", "threshold"};
}
enum class BufferNorm { kBuffer, kWeights };
constexpr auto choices_of(BufferNorm) { return std::array{"buffer", "weights"}; }
enum class NextClient { kDraw, kSame };
constexpr auto choices_of(NextClient) { return std::array{"draw", "same"}; }
enum class BalanceKind { kNone, kFrequency };
constexpr auto choices_of(BalanceKind) { return std::array{"none", "frequency"}; }

struct AsyncOptions {
  std::string kind = "none";  // none | fedbuff | fedasync
  int64_t concurrency = 10;   // C
  int64_t buffer = 10;        // B; see arrivals_of_a_version()
  StalenessKind staleness = StalenessKind::kPoly;
  double a = 0.5;
  double b = 4;
  double mixing = 0.6;  // alpha
  BufferNorm normalize = BufferNorm::kBuffer;
  int64_t max_staleness = 0;  // 0: none
  NextClient next = NextClient::kDraw;
  int64_t open_slots = 1;
  BalanceKind balance = BalanceKind::kNone;
  int64_t ahead = 1;

  bool is_on() const { return kind != "none"; }
  bool is_fedasync() const { return kind == "fedasync"; }
  // B; of fedasync 1.
  int64_t arrivals_of_a_version() const { return is_fedasync() ? 1 : buffer; }
};

}  // namespace hanse
